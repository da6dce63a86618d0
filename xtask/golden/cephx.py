#!/usr/bin/env python3
"""Opens a captured client's connections with the client's key, to prove that the fixtures are whole.

    cephx.py STREAMS KEYRING ENTITY [EXTRACTION CLUSTER_KEYRING]

STREAMS is a folder of extract.py's `streams/MODE`. Follows the client through cephx: its session key out of the
monitor's AUTH_DONE, the other services' tickets, each connection's secret; in secure mode then opens every AES-GCM
frame. Prints each frame's tag, and the keys on the way. With EXTRACTION also opens the rotating keys that daemons were
sent. Needs the `cryptography` package. Refuses: to make bytes. Facts: Ceph v16.2 src/auth/cephx/CephxProtocol.h,
src/msg/async/crypto_onwire.cc, frames_v2.cc. Read next: msgr2.py.
"""

import base64
import glob
import os
import re
import struct
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import msgr2

IV = b"cephsageyudagreg"
MAGIC = 0xFF009CAD8826AA55
SECURE_INLINE, GCM_TAG, SECURE_ALIGN, SECURE_PREAMBLE = 48, 16, 16, 96


class Reader:
    """A cursor over bytes in Ceph's little-endian encoding."""

    def __init__(self, data):
        self.data, self.pos = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.pos)
        self.pos += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def bytes(self, size=None):
        size = self.take("I") if size is None else size
        out = self.data[self.pos : self.pos + size]
        if len(out) < size:
            raise ValueError(f"{size} bytes wanted, {len(out)} left")
        self.pos += size
        return out

    def key(self):
        self.take("H")
        self.take("II")
        return self.bytes(self.take("H"))

    @property
    def left(self):
        return len(self.data) - self.pos


def unseal(key, sealed):
    """The inside of a cephx-encrypted blob: its struct version and magic number are checked and removed."""
    box = Cipher(algorithms.AES(key), modes.CBC(IV)).decryptor()
    plain = box.update(sealed) + box.finalize()
    plain = plain[: -plain[-1]]
    version, magic = struct.unpack_from("<BQ", plain) if len(plain) >= 9 else (0, 0)
    if (version, magic) != (1, MAGIC):
        raise ValueError("wrong key for a cephx blob")
    return plain[9:]


def tickets(key, reader, keys):
    """A ticket reply: the session key for each service, opened with `key`, into `keys`."""
    reader.take("B")
    for _ in range(reader.take("I")):
        service, _ = reader.take("IB")
        inner = Reader(unseal(key, reader.bytes()))
        inner.take("B")
        keys[service] = inner.key()
        sealed = reader.take("B")
        blob = reader.bytes()
        print(f"  ticket for {msgr2.SERVICE.get(service)}: session key {keys[service].hex()}, blob of {len(blob)}, enc={sealed}")


def mon_done(secret, frame, keys):
    """The monitor's AUTH_DONE: (connection mode, connection secret)."""
    reader = Reader(frame.segments[0])
    _, mode = reader.take("QI")
    body = Reader(reader.bytes())
    body.take("Hi")
    tickets(secret, body, keys)
    conn = Reader(unseal(keys[32], Reader(body.bytes()).bytes())).bytes() if body.left else b""
    extra = body.bytes() if body.left else b""
    if extra:
        tickets(keys[32], Reader(extra), keys)
    return mode, conn


def service_done(session, frame):
    """A service's AUTH_DONE: (connection mode, connection secret)."""
    reader = Reader(frame.segments[0])
    _, mode = reader.take("QI")
    sealed = Reader(reader.bytes()).bytes()
    inner = Reader(unseal(session, sealed))
    version, nonce_plus_one = inner.take("BQ")
    conn = inner.bytes() if version >= 2 and inner.left else b""
    return mode, conn


def secure_frames(data, key, nonce):
    """Tags and segments of AES-GCM frames."""
    box, pos = AESGCM(key), 0
    fixed, count = nonce[:4], struct.unpack("<Q", nonce[4:])[0]

    def step(size):
        nonlocal pos, count
        out = box.decrypt(fixed + struct.pack("<Q", count & (2**64 - 1)), bytes(data[pos : pos + size]), b"")
        pos, count = pos + size, count + 1
        return out

    while pos < len(data):
        if len(data) - pos < SECURE_PREAMBLE:
            raise ValueError("ends inside a preamble")
        head = step(SECURE_PREAMBLE)
        tag, number = head[0], head[1]
        lens = [struct.unpack_from("<I", head, 2 + 6 * i)[0] for i in range(number)]
        padded = [-(-size // SECURE_ALIGN) * SECURE_ALIGN for size in lens]
        rest = (max(padded[0], SECURE_INLINE) - SECURE_INLINE) + sum(padded[1:])
        body = head[32 : 32 + SECURE_INLINE]
        if rest or number > 1:
            size = rest + (SECURE_ALIGN if number > 1 else 0) + GCM_TAG
            body += step(size)
        segments, cursor = [], 0
        for index, size in enumerate(lens):
            segments.append(body[cursor : cursor + size])
            cursor += max(padded[index], SECURE_INLINE) if index == 0 else padded[index]
        yield tag, segments


def follow(folder, secret):
    """Each connection of the client, in the order in which it made them: the monitor's comes first."""
    keys = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.c.bin"))):
        peer = re.search(r"_([a-z]+)\.c\.bin$", path).group(1)
        sides = []
        for side in "cs":
            half = msgr2.Half(("", 0), ("", 0), 0)
            half.data = bytearray(open(path[: -len("c.bin")] + side + ".bin", "rb").read())
            sides.append(half)
        up, down = msgr2.frames(sides[0]), msgr2.frames(sides[1])
        done = [frame for frame in down.frames if frame.tag == msgr2.TAG_AUTH_DONE][0]
        print(os.path.basename(path))
        number = {name: kind for kind, name in msgr2.SERVICE.items()}[peer]
        mode, conn = mon_done(secret, done, keys) if peer == "mon" else service_done(keys[number], done)
        print(f"  mode {mode}, connection secret {conn.hex()}")
        for name, stream, half in (("c", up, sides[0]), ("s", down, sides[1])):
            print(f"  {name}:", " ".join(frame.name for frame in stream.frames), stream.stop)
            if mode == 2:
                last = [frame for frame in stream.frames if frame.name in ("AUTH_REQUEST_MORE", "AUTH_DONE")][-1]
                # 16 bytes of key, then the client's and the server's 12 bytes of nonce: each names what it receives
                rx, tx = conn[16:28], conn[28:40]
                plain = secure_frames(half.data[last.offset + len(last.raw) :], conn[:16], tx if name == "c" else rx)
                print("    secure:", " ".join(describe(tag, segments) for tag, segments in plain))


def describe(tag, segments):
    name = msgr2.TAGS.get(tag, str(tag))
    if tag == msgr2.TAG_MESSAGE:
        name += f"({struct.unpack_from('<H', segments[0], 16)[0]}:{'+'.join(str(len(s)) for s in segments[1:])})"
    return name


def keyring(path):
    out, name = {}, None
    for line in open(path):
        found = re.match(r"\[(.*)\]", line.strip())
        if found:
            name = found.group(1)
        elif line.strip().startswith("key"):
            out[name] = Reader(base64.b64decode(line.split("=", 1)[1])).key()
    return out


def rotating(extraction, keys):
    """Rotating keys in the MAuthReply messages of an extraction."""
    for path in sorted(glob.glob(os.path.join(extraction, "messages", "0018_*.bin"))):
        data = open(path, "rb").read()
        front = data[53 : 53 + struct.unpack_from("<I", data, 41)[0]]
        reader = Reader(front)
        reader.take("IiQ")
        body = Reader(reader.bytes())
        if body.left < 6:
            continue
        kind, status = body.take("Hi")
        print(os.path.basename(path), f"request {kind:#x} status {status}")
        if kind != 0x400:
            continue
        sealed = body.bytes()
        for name, key in keys.items():
            try:
                inner = Reader(unseal(key, sealed))
            except ValueError:
                continue
            inner.take("B")
            for _ in range(inner.take("I")):
                ident, _ = inner.take("QB")
                secret = inner.key()
                print(f"  {name}: key {ident} {secret.hex()} until {inner.take('II')}")


def main():
    streams, ring, entity = sys.argv[1:4]
    follow(streams, keyring(ring)[entity])
    if len(sys.argv) > 5:
        rotating(sys.argv[4], keyring(sys.argv[5]))


if __name__ == "__main__":
    main()
