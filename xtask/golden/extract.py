#!/usr/bin/env python3
"""Golden bytes from a capture: messages, handshake frames and maps, each a file, and an index of them.

    extract.py OUT CAPTURE.pcap...

Owns: which of a capture's frames are kept and what their files are called. Refuses: choosing the few that the test
suite carries (curate.py). The formats are described in the README.md beside the fixtures. Read next: msgr2.py.
"""

import hashlib
import os
import struct
import sys
from collections import Counter, defaultdict

import labels
import msgr2
from names import MESSAGES

KEPT_PER_KEY = 6  # a key is type, version, who to whom, and label
KEPT_PER_TYPE = 200
# What makes a handshake worth a folder of its own: a frame in it, and the word that the folder's name starts with.
STORIES = {"SESSION_RECONNECT": "reconnect_", "SESSION_RETRY": "retry_", "AUTH_BAD_METHOD": "refused_", "WAIT": "race_"}
STREAM_PUT_MIN, STREAM_TOTAL_MAX = 4096, 400_000


def end(stream, other, named):
    """The name of the entity that sent `stream`: kind from its HELLO, number from its ident."""
    kind, number = "?", None
    for frame in stream.frames:
        if frame.name == "HELLO":
            kind = msgr2.SERVICE.get(frame.segments[0][0], "?")
        elif frame.name in ("CLIENT_IDENT", "SERVER_IDENT"):
            number = struct.unpack_from("<q", frame.segments[0], len(frame.segments[0]) - named)[0]
            break
    return kind, number


class Writer:
    """Files below one folder, each content once."""

    def __init__(self, root):
        self.root, self.seen = root, set()
        self.index = []
        self.per_key, self.per_type, self.sizes = Counter(), Counter(), defaultdict(set)

    def put(self, path, data):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)

    def message(self, frame, src, dst, where):
        header, front, middle, data = (frame.segments + [b"", b"", b""])[:4]
        seq, tid, kind, prio, version = struct.unpack_from("<QQHHH", header)
        compat = struct.unpack_from("<H", header, 37)[0]
        name = MESSAGES.get(kind, f"M{kind}")
        label = labels.label(kind, version, front, data)
        key = (kind, version, src[0], dst[0], label)
        size = (len(front), len(middle), len(data))
        digest = hashlib.sha1(front + middle + data).hexdigest()[:12]
        path = "-"
        fresh = size not in self.sizes[key] or self.per_key[key] < 2
        if digest not in self.seen and fresh and self.per_key[key] < KEPT_PER_KEY and self.per_type[kind] < KEPT_PER_TYPE:
            self.seen.add(digest)
            self.sizes[key].add(size)
            self.per_key[key] += 1
            self.per_type[kind] += 1
            path = f"messages/{kind:04}_{name}_{self.per_type[kind]:03}.bin"
            self.put(path, header + struct.pack("<III", *size) + front + middle + data)
        self.index.append(
            (path, kind, name, version, compat, prio, f"{show(src)}>{show(dst)}", *size, seq, tid, label or "-", digest, where, f"{frame.when:.6f}")
        )


def show(entity):
    return entity[0] if entity[1] is None else f"{entity[0]}.{entity[1]}"


def global_id(a, b, up, down):
    """The global id of the client behind a connection, as far as the handshake shows it in the clear."""
    if a[0] != "client":
        return None
    if b[0] == "mon":
        done = [frame for frame in down.frames if frame.tag == msgr2.TAG_AUTH_DONE]
        return struct.unpack_from("<Q", done[0].segments[0])[0] if done else None
    asked = [frame for frame in up.frames if frame.name == "AUTH_REQUEST"]
    if not asked:
        return None
    modes = struct.unpack_from("<I", asked[0].segments[0], 4)[0]
    return struct.unpack_from("<Q", asked[0].segments[0], 8 + 4 * modes + 4 + 1)[0]


def streams(writer, clients):
    """Every byte of all connections of one client that wrote to an OSD, for each connection mode: the smallest one."""
    for mode in ("crc", "secure"):
        best = None
        for ident, conns in clients.items():
            if any(kind != mode for _, _, kind, _ in conns):
                continue
            total = sum(len(conn.up.data) + len(conn.down.data) for _, _, _, conn in conns)
            peers = {peer for _, peer, _, _ in conns}
            put = max((len(conn.up.data) for _, peer, _, conn in conns if peer == "osd"), default=0)
            if {"mon", "osd"} <= peers and put >= STREAM_PUT_MIN and total <= STREAM_TOTAL_MAX and (best is None or total < best[0]):
                best = (total, ident, conns)
        for count, (_, peer, _, conn) in enumerate(best[2] if best else []):
            for side, half in (("c", conn.up), ("s", conn.down)):
                writer.put(f"streams/{mode}/{count:02}_{peer}.{side}.bin", bytes(half.data))
                stamps = "".join(f"{when:.6f}\t{offset}\n" for offset, when in half.stamps)
                writer.put(f"streams/{mode}/{count:02}_{peer}.{side}.times.tsv", stamps.encode())


def main():
    out, captures = sys.argv[1], sys.argv[2:]
    writer, kept_shakes, full, inc = Writer(out), Counter(), {}, {}
    tags, stops, shakes, clients = Counter(), [], [], defaultdict(list)
    for capture in captures:
        base = os.path.splitext(os.path.basename(capture))[0]
        for conn in msgr2.connections(capture):
            up, down = msgr2.frames(conn.up), msgr2.frames(conn.down)
            a, b = end(up, down, 48), end(down, up, 48)
            where = f"{base}:{conn.number}"
            for stream, src, dst in ((up, a, b), (down, b, a)):
                if stream.stop:
                    stops.append(f"{where} {show(src)}>{show(dst)} {stream.stop}")
                for frame in stream.frames:
                    tags[frame.name] += 1
                    if frame.tag == msgr2.TAG_MESSAGE:
                        writer.message(frame, src, dst, where)
                        header, front = frame.segments[0], (frame.segments + [b""])[1]
                        if struct.unpack_from("<H", header, 16)[0] == 41:
                            incs, fulls = labels.osd_maps(front)
                            inc.update(incs)
                            full.update(fulls)
                    elif frame.tag > 6 and tags[frame.name] <= 12:
                        writer.put(f"frames/{frame.name}_{src[0]}-{dst[0]}_{tags[frame.name]:02}.bin", frame.raw)
            handshake(writer, kept_shakes, shakes, where, a, b, up, down)
            ident = global_id(a, b, up, down)
            if ident:
                mode = "secure" if "secure" in down.stop else "crc"
                clients[(base, ident)].append((where, b[0], mode, conn))
    for epoch, data in inc.items():
        writer.put(f"maps/osdmap.inc.{epoch:04}.bin", data)
    for epoch, data in full.items():
        writer.put(f"maps/osdmap.full.{epoch:04}.bin", data)
    streams(writer, clients)
    head = "file type name version compat prio direction front middle data seq tid label sha1 conn time".split()
    with open(os.path.join(out, "index.tsv"), "w") as file:
        file.write("\t".join(head) + "\n")
        for row in writer.index:
            file.write("\t".join(map(str, row)) + "\n")
    with open(os.path.join(out, "handshakes.tsv"), "w") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in shakes)
    with open(os.path.join(out, "stops.txt"), "w") as file:
        file.writelines(line + "\n" for line in stops)
    print(f"{len(writer.index)} messages, {sum(writer.per_type.values())} kept, {len(inc)} incrementals, {len(full)} full maps; {dict(tags)}")


def handshake(writer, kept, shakes, where, a, b, up, down):
    """All frames before the first MESSAGE of each side, in the order of their arrival."""
    steps = []
    for side, stream in (("c", up), ("s", down)):
        for frame in stream.frames:
            if frame.tag >= msgr2.TAG_MESSAGE:
                break
            steps.append((frame.when, frame.offset, side, frame))
    names = " ".join(f"{side}:{frame.name}" for _, _, side, frame in sorted(steps, key=lambda s: s[:2]))
    shakes.append((where, show(a), show(b), names))
    story = "".join(word for tag, word in STORIES.items() if tag in names)
    if up.stop or down.stop:
        story += "secure_" if "secure" in down.stop else ""
    shape = (a[0], b[0], story, len(steps))
    kept[shape] += 1
    if kept[shape] > 3 or not steps:
        return
    folder = f"handshakes/{story}{a[0]}-{b[0]}_{where.replace(':', '-')}"
    for count, (_, _, side, frame) in enumerate(sorted(steps, key=lambda s: s[:2])):
        writer.put(f"{folder}/{count:02}_{side}_{frame.name}.bin", frame.raw)


if __name__ == "__main__":
    main()
