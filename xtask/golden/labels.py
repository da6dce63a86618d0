"""A short label for a message, so that a reader of the index (and the choice of fixtures) sees what is in it.

Owns: peeking at a few fields of a few messages. A label decides nothing but a file's name; a message that cannot be
peeked at has an empty one. Facts: Ceph v16.2 src/messages/*.h.
"""

import re
import struct

from names import OPS


def label(kind, version, front, data):
    """What the message says, in a few words without spaces."""
    try:
        peek = _PEEKS.get(kind)
        return re.sub(r"[^A-Za-z0-9_.+=,:>-]+", "-", peek(version, front, data)) if peek else ""
    except (struct.error, IndexError, UnicodeDecodeError):
        return "unreadable"


def _text(front, pos):
    size = struct.unpack_from("<I", front, pos)[0]
    return front[pos + 4 : pos + 4 + size].decode(), pos + 4 + size


def _ops(front, pos, count):
    codes = [struct.unpack_from("<H", front, pos + 38 * i)[0] for i in range(count)]
    return "+".join(OPS.get(code, f"{code:#x}") for code in codes)


def _osd_op(version, front, _):
    pos = 24 + 12 + 27 + 24 + 4 + 8
    pos += 6 + struct.unpack_from("<I", front, pos + 2)[0]
    _, pos = _text(front, pos)
    return _ops(front, pos + 2, struct.unpack_from("<H", front, pos)[0])


def _osd_op_reply(version, front, _):
    _, pos = _text(front, 0)
    result = struct.unpack_from("<i", front, pos + 25)[0]
    pos += 25 + 4 + 12 + 4
    return _ops(front, pos + 4, struct.unpack_from("<I", front, pos)[0]) + f",r={min(result, 1)}"


def _prefix(_, front, __):
    found = re.search(rb'"prefix": ?"([^"]*)"', front)
    return found.group(1).decode() if found else ""


def _ack(version, front, data):
    code = struct.unpack_from("<i", front, 18)[0]
    return f"{_prefix(version, front, data)},r={code}"


def _reply(_, front, __):
    return f"r={struct.unpack_from('<i', front, 0)[0]}"


def _ping(_, front, __):
    return {0: "heartbeat", 1: "start", 2: "you-died", 3: "stop", 4: "ping", 5: "ping-reply"}.get(front[20], "?")


def _subscribe(_, front, __):
    count, pos, out = struct.unpack_from("<I", front, 0)[0], 4, []
    for _ in range(count):
        name, pos = _text(front, pos)
        start, flags = struct.unpack_from("<QB", front, pos)
        pos += 9
        out.append(f"{name}>={'0' if start == 0 else 'n'}{'once' if flags & 1 else ''}")
    return ",".join(out)


def _auth(_, front, __):
    protocol, size = struct.unpack_from("<II", front, 18)
    return f"proto={protocol}" + (f",request={struct.unpack_from('<H', front, 26)[0]:#x}" if size >= 2 else "")


def _auth_reply(_, front, __):
    _, result, _, size = struct.unpack_from("<IiQI", front)
    return f"r={result}" + (f",request={struct.unpack_from('<H', front, 20)[0]:#x}" if size >= 2 else "")


def _what(_, front, __):
    return _text(front, 8)[0]


def _pool_op(_, front, __):
    return f"op={struct.unpack_from('<I', front, 18 + 16 + 4)[0]:#x}"


def osd_maps(front):
    """(incrementals, full maps) of an MOSDMap: epoch to bytes."""
    pos, out = 16, []
    for _ in range(2):
        count = struct.unpack_from("<I", front, pos)[0]
        pos, maps = pos + 4, {}
        for _ in range(count):
            epoch, size = struct.unpack_from("<II", front, pos)
            maps[epoch] = front[pos + 8 : pos + 8 + size]
            pos += 8 + size
        out.append(maps)
    return out


def _osd_map(_, front, __):
    incs, fulls = osd_maps(front)
    return f"inc={len(incs)},full={len(fulls)}"


def _watch(_, front, __):
    return f"op={front[0]}"


_PEEKS = {
    15: _subscribe, 17: _auth, 18: _auth_reply, 19: _what, 41: _osd_map, 42: _osd_op, 43: _osd_op_reply, 44: _watch, 49: _pool_op,
    50: _prefix, 51: _ack, 70: _ping, 97: _prefix, 98: _reply, 0x709: _prefix, 0x70A: _reply,
}
