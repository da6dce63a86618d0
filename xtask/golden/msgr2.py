"""TCP streams out of a pcap file, and msgr2.1 frames out of TCP streams.

Owns: the pcap container, TCP reassembly, the msgr2 banner and the crc-mode framing of revision 1.
Refuses: secure-mode frames (a stream is cut, and flagged, where encryption starts), msgr1, pcapng.
Facts: Ceph v16.2 src/msg/async/frames_v2.h, frames_v2.cc (FrameAssembler) and ProtocolV2.cc; standard library only.
Read next: extract.py.
"""

import struct
from dataclasses import dataclass, field

BANNER = b"ceph v2\n"
PREAMBLE_LEN = 32
REV1_EPILOGUE_LEN = 13
SERVICE = {1: "mon", 2: "mds", 4: "osd", 8: "client", 16: "mgr", 32: "auth"}

TAGS = {
    1: "HELLO", 2: "AUTH_REQUEST", 3: "AUTH_BAD_METHOD", 4: "AUTH_REPLY_MORE", 5: "AUTH_REQUEST_MORE",
    6: "AUTH_DONE", 7: "AUTH_SIGNATURE", 8: "CLIENT_IDENT", 9: "SERVER_IDENT", 10: "IDENT_MISSING_FEATURES",
    11: "SESSION_RECONNECT", 12: "SESSION_RESET", 13: "SESSION_RETRY", 14: "SESSION_RETRY_GLOBAL",
    15: "SESSION_RECONNECT_OK", 16: "WAIT", 17: "MESSAGE", 18: "KEEPALIVE2", 19: "KEEPALIVE2_ACK", 20: "ACK",
}
TAG_AUTH_DONE, TAG_MESSAGE = 6, 17


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(seed, data):
    """CRC-32C as Ceph counts it: the register is neither inverted before nor after."""
    crc = seed
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


class Bad(Exception):
    """A stream that is not what msgr2.1 says it must be."""


@dataclass
class Half:
    """One direction of one TCP connection: the bytes in order, and when each stretch of them arrived."""

    src: tuple
    dst: tuple
    next_seq: int = None
    data: bytearray = field(default_factory=bytearray)
    stamps: list = field(default_factory=list)  # (offset, time)
    early: dict = field(default_factory=dict)  # sequence number -> payload that arrived before its turn
    gap: bool = False

    def feed(self, seq, payload, when):
        if self.next_seq is None:  # the capture started in the middle: no banner, hence of no use
            self.gap = True
            return
        self.early[seq] = max(self.early.get(seq, b""), payload, key=len)
        moved = True
        while moved and self.early:
            moved = False
            for start in list(self.early):
                behind = (self.next_seq - start) & 0xFFFFFFFF
                if behind >= 0x80000000:
                    continue  # still in the future
                part = self.early.pop(start)[behind:]
                if part:
                    self.stamps.append((len(self.data), when))
                    self.data += part
                    self.next_seq = (self.next_seq + len(part)) & 0xFFFFFFFF
                    moved = True

    def when(self, offset):
        best = self.stamps[0][1] if self.stamps else 0.0
        low, high = 0, len(self.stamps)
        while low < high:
            mid = (low + high) // 2
            if self.stamps[mid][0] <= offset:
                best, low = self.stamps[mid][1], mid + 1
            else:
                high = mid
        return best


@dataclass
class Connection:
    """Both directions; `up` is what the connecting side sent, `down` what the listening side sent."""

    number: int
    up: Half
    down: Half
    closed: str = ""


def connections(path):
    """Every TCP connection of a pcap file whose SYN was captured, in the order of their SYNs."""
    live, out = {}, []
    for when, packet in _packets(path):
        if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != 6:
            continue
        ip_len = (packet[14] & 15) * 4
        total = struct.unpack_from(">H", packet, 16)[0] or len(packet) - 14
        src_ip, dst_ip = packet[26:30], packet[30:34]
        tcp = 14 + ip_len
        sport, dport, seq = struct.unpack_from(">HHI", packet, tcp)
        flags, header = packet[tcp + 13], (packet[tcp + 12] >> 4) * 4
        payload = packet[tcp + header : 14 + total]
        src, dst = (".".join(map(str, src_ip)), sport), (".".join(map(str, dst_ip)), dport)
        syn, ack, fin, rst = flags & 2, flags & 16, flags & 1, flags & 4
        if syn and not ack:
            old = live.get((src, dst))
            if old is None or old.up.next_seq != ((seq + 1) & 0xFFFFFFFF):
                conn = Connection(len(out), Half(src, dst), Half(dst, src))
                conn.up.next_seq = (seq + 1) & 0xFFFFFFFF
                live[(src, dst)] = conn
                out.append(conn)
            continue
        if syn and ack:
            conn = live.get((dst, src))
            if conn is not None and conn.down.next_seq is None:
                conn.down.next_seq = (seq + 1) & 0xFFFFFFFF
            continue
        conn, half = live.get((src, dst)), "up"
        if conn is None:
            conn, half = live.get((dst, src)), "down"
        if conn is None:
            continue
        if payload:
            getattr(conn, half).feed(seq, payload, when)
        if fin or rst:
            conn.closed = conn.closed or ("rst" if rst else "fin") + "-" + half
    return out


def _packets(path):
    with open(path, "rb") as file:
        head = file.read(24)
        order, scale = {
            b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
            b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9),
        }[head[:4]]
        if struct.unpack(order + "I", head[20:24])[0] != 1:
            raise Bad(f"{path}: link type is not Ethernet; capture on lo")
        while True:
            record = file.read(16)
            if len(record) < 16:
                return
            sec, frac, have, full = struct.unpack(order + "IIII", record)
            data = file.read(have)
            if len(data) < have:
                return
            if have < full:
                raise Bad(f"{path}: a packet was cut; capture with -s 0")
            yield sec + frac * scale, data


@dataclass
class Frame:
    """One frame (or, with tag 0, the banner): its bytes as they were on the wire, and its segments."""

    tag: int
    segments: list
    raw: bytes
    when: float
    offset: int

    @property
    def name(self):
        return TAGS.get(self.tag, "BANNER" if self.tag == 0 else f"TAG{self.tag}")


@dataclass
class Stream:
    """The frames of one direction, and why reading stopped short of its end (empty when it did not)."""

    frames: list
    stop: str = ""
    features: tuple = (0, 0)


def frames(half, check_up_to=65536):
    """The frames of one direction; reading stops where encryption starts. Longer segments' crcs are not checked."""
    data, out = half.data, Stream([])
    if half.gap:
        out.stop = "capture started in the middle"
        return out
    if not data.startswith(BANNER) or len(data) < 10:
        out.stop = "no msgr2 banner" if data else "silent"
        return out
    size = struct.unpack_from("<H", data, 8)[0]
    out.features = struct.unpack_from("<QQ", data, 10)
    pos = 10 + size
    out.frames.append(Frame(0, [bytes(data[10:pos])], bytes(data[:pos]), half.when(0), 0))
    if not out.features[0] & 1:
        out.stop = "peer does not speak revision 1"
        return out
    while pos < len(data):
        try:
            frame = _frame(data, pos, half.when(pos), check_up_to)
        except Bad as why:
            out.stop = f"offset {pos} of {len(data)}: {why}"
            return out
        out.frames.append(frame)
        pos += len(frame.raw)
        if frame.tag == TAG_AUTH_DONE and struct.unpack_from("<I", frame.segments[0], 8)[0] == 2:
            out.stop = f"secure mode from offset {pos}"
            return out
    return out


def _frame(data, pos, when, check_up_to):
    if len(data) - pos < PREAMBLE_LEN:
        raise Bad("capture ends inside a preamble")
    tag, count = data[pos], data[pos + 1]
    lens = [struct.unpack_from("<IH", data, pos + 2 + 6 * i)[0] for i in range(4)]
    if struct.unpack_from("<I", data, pos + 28)[0] != crc32c(0, data[pos : pos + 28]):
        raise Bad("preamble crc is wrong (secure mode?)")
    if not 1 <= count <= 4:
        raise Bad(f"{count} segments")
    segments, cursor = [], pos + PREAMBLE_LEN
    for index in range(count):
        segments.append(bytes(data[cursor : cursor + lens[index]]))
        cursor += lens[index]
        if index == 0 and lens[0]:
            cursor += 4
    if count > 1:
        cursor += REV1_EPILOGUE_LEN
    if cursor > len(data):
        raise Bad("capture ends inside a frame")
    crcs = []
    if lens[0]:
        crcs.append(struct.unpack_from("<I", data, pos + PREAMBLE_LEN + lens[0])[0])
    else:
        crcs.append(None)
    if count > 1:
        late, *rest = struct.unpack_from("<BIII", data, cursor - REV1_EPILOGUE_LEN)
        if late & 0xF != 0xE:
            raise Bad(f"late status {late:#x}")
        crcs += rest
    for segment, crc in zip(segments, crcs):
        if crc is not None and len(segment) <= check_up_to and crc32c(0xFFFFFFFF, segment) != crc:
            raise Bad("segment crc is wrong")
    return Frame(tag, segments, bytes(data[pos:cursor]), when, pos)
