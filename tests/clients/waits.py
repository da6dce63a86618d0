"""What clients' long operations wait for: looked at while they wait, told in a table.

Each client says in a file what it does now, since when. Where that takes long, the client's own admin socket tells the
request that is not answered and which map it has, the monitor where that belongs, and the admin socket of that OSD whether
the request is there, at what stage, and how its placement group is.
"""
import contextlib
import json
import socket
import struct
import threading
import time
from collections import Counter

import rados

# From when on an operation is looked at, and how often.
LONG_SECONDS = 3
LOOK_SECONDS = 0.5
# How many are told of.
SHOWN_MAX = 6
# What they wait for. LOST is nothing that anybody would end: the group serves, and its OSD knows nothing of the request.
FEW, SILENT, PEERING, OBJECT = "too few members", "an OSD that does not answer", "peering", "the object"
LOST, OTHER = "nothing", "what is not known"


def ask(path, prefix, **args):
    """A daemon's, or a client's, answer on its admin socket; none where nobody answers."""
    with contextlib.suppress(OSError, ValueError, struct.error), socket.socket(socket.AF_UNIX) as conn:
        conn.settimeout(1)
        conn.connect(str(path))
        conn.sendall(json.dumps({"prefix": prefix, "format": "json", **args}).encode() + b"\0")
        (length,) = struct.unpack(">I", conn.recv(4, socket.MSG_WAITALL))
        return json.loads(conn.recv(length, socket.MSG_WAITALL))
    return None


class Long:
    """An operation that takes long: since when each of its stages was seen, and what that is a wait for."""

    def __init__(self, client, began, what):
        self.client, self.began, self.what, self.ended = client, began, what, None
        self.stages = []

    def took(self):
        return (self.ended or time.time()) - self.began

    def note(self, kind, text, maps):
        if not self.stages or self.stages[-1][1:3] != (kind, text):
            self.stages.append((time.time() - self.began, kind, text, maps))

    def waits(self):
        """For how many seconds it was seen to wait for what."""
        ends = [at for at, *_ in self.stages[1:]] + [self.took()]
        waits = Counter()
        for (at, kind, *_), end in zip(self.stages, ends):
            waits[kind] += max(0, end - at)
        return waits


class Waits(threading.Thread):
    """Watches the clients of a pool whose files are `now`. `events` has what was done to the cluster: (when, what)."""

    def __init__(self, cluster, pool, now, sockets, events):
        super().__init__(daemon=True)
        self.cluster, self.pool, self.now, self.sockets, self.events = cluster, pool, now, sockets, events
        self.all, self.over = [], threading.Event()

    def run(self):
        self.mon = rados.Rados(conffile=str(self.cluster.conf))
        self.mon.connect()
        current = [None] * len(self.now)
        while not self.over.wait(LOOK_SECONDS):
            for client, file in enumerate(self.now):
                current[client] = self.look(client, file, current[client])
        self.mon.shutdown()

    def end(self):
        """Once no client works any more."""
        self.over.set()
        self.join()
        for long in self.all:
            long.ended = long.ended or self.now[long.client].stat().st_mtime

    def look(self, client, file, known):
        """What of a client takes long now, of which `known` may have been known before."""
        try:
            began, what = file.read_text().split(" ", 1)
            began = float(began)
        except (OSError, ValueError):
            # It writes just now, or has ended.
            return known
        if known and known.began != began:
            # The next one began when it ended.
            known.ended, known = began, None
        if known is None and time.time() - began > LONG_SECONDS:
            known = Long(client, began, what)
            self.all.append(known)
        if known:
            known.note(*self.stage(self.sockets[client]))
        return known

    def stage(self, client):
        requests, counters = ask(client, "objecter_requests"), ask(client, "perf dump")
        if not requests or not requests["ops"] or not counters:
            return OTHER, "no request is under way" if requests else "the client does not answer", ""
        op = requests["ops"][0]
        where = {"prefix": "osd map", "pool": self.pool, "object": op["object_id"], "format": "json"}
        _, out, _ = self.mon.mon_command(json.dumps(where), b"", timeout=5)
        place = json.loads(out or "{}")
        pg, up, acting, primary = (place.get(key) for key in ("pgid", "up", "acting", "acting_primary"))
        kind, how = self.of_osd(primary, pg, op)
        sets = f"pg {pg} of {acting}" + ("" if up == acting else f" (up {up})")
        maps = f"map {place.get('epoch')}, the client's {counters['objecter']['map_epoch']}"
        return kind, f"{sets} is {how}; sent to osd.{op['osd']}, {op['attempts']} times", maps

    def of_osd(self, osd, pg, op):
        """How a group is on the OSD that leads it, and where the request stands there."""
        if osd is None or osd < 0:
            return FEW, "led by nobody"
        path = self.cluster.dir / "run" / f"osd.{osd}.asok"
        group = ask(path, "pg", pgid=pg, cmd="query")
        if group is None:
            status = ask(path, "status")
            if status is None:
                return SILENT, f"led by osd.{osd}, which does not answer"
            return PEERING, f"not led by osd.{osd} yet"
        step, state = group["recovery_state"][0], group["state"]
        if "active" not in state:
            step = step["name"].rpartition("/")[2] + (f" ({step['comment']})" if "comment" in step else "")
            return FEW if "peered" in state or "(" in step else PEERING, f"{state}, {step}"
        flight = (ask(path, "dump_ops_in_flight") or {}).get("ops", [])
        mine = [f for f in flight if f":{op['tid']} " in f["description"] and op["object_id"] in f["description"]]
        if not mine:
            return LOST, f"{state} without the request"
        return OBJECT, f"{state}, the request: {mine[0]['type_data']['events'][-1]['event']}"

    def lost(self):
        """The operation that waited longest for nothing, and for how long."""
        return max(((long.waits()[LOST], long) for long in self.all), key=lambda pair: pair[0], default=(0, None))

    def table(self, longest=None):
        """The longest operations: what they went through, and what was done meanwhile."""
        longest = longest or sorted(self.all, key=Long.took, reverse=True)[:SHOWN_MAX]
        return "\n".join(line for long in longest for line in self.lines(long))

    def lines(self, long):
        waits = ", ".join(f"{seconds:.1f} s for {kind}" for kind, seconds in long.waits().most_common())
        began = time.strftime("%H:%M:%S", time.localtime(long.began))
        yield f"{began} client {long.client} {long.what}: {long.took():.1f} s, of them {waits}"
        until = long.began + long.took()
        happened = [(at - long.began, what) for at, what in self.events if long.began - 1 <= at <= until]
        for at, text in sorted(happened + [(at, f"  {text} ({maps})") for at, _, text, maps in long.stages]):
            yield f"  {at:+6.1f} {text}"
