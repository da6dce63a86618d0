"""Clients that write objects and read them back, one request at a time, and know what each must hold."""
import json
import os
import subprocess

from harness import wait_for

# Writes whole objects, reads others back, and says at its end what it saw.
WORKER = r"""
import json, random, rados, sys, time
conf, prefix, stop = sys.argv[1], sys.argv[2], sys.argv[3]
rng = random.Random(prefix)
cluster = rados.Rados(conffile=conf); cluster.connect()
io = cluster.open_ioctx("p")
versions, ops, wrong, longest = {}, 0, [], 0.0
def content(name, version):
    size = (20, 4096, 70000, 300000)[hash_of(name) % 4]
    return (f"{name} {version} " * (size // 4)).encode()[:size]
def hash_of(name):
    return sum(name.encode())
def check(name):
    if io.read(name, 1 << 20) != content(name, versions[name]):
        wrong.append(name)
import os
log = open(stop + ".ops." + prefix, "w")
while not os.path.exists(stop):
    name = f"{prefix}.{rng.randrange(60)}"
    began = time.monotonic()
    if name in versions and rng.random() < 0.4:
        check(name)
    else:
        version = versions.get(name, 0) + 1
        io.write_full(name, content(name, version))
        io.set_xattr(name, "v", str(version).encode())
        versions[name] = version
    longest = max(longest, time.monotonic() - began)
    ops += 1
    log.seek(0); log.write(f"{ops:12}"); log.flush()
for name in versions:
    check(name)
    if io.get_xattr(name, "v") != str(versions[name]).encode():
        wrong.append(name + " (xattr)")
print(json.dumps({"ops": ops, "longest_s": longest, "objects": len(versions), "wrong": wrong}))
"""


class Workers:
    """Some of them, in pool `p`; where their files go, `parent` says, and `on` how a command runs."""

    def __init__(self, conf, parent, on=lambda *command: list(command)):
        self.conf, self.stop, self.on, self.running = conf, parent / "stop", on, []

    def begin(self, count=3):
        self.stop.unlink(missing_ok=True)
        for number in range(count):
            (self.stop.parent / f"stop.ops.w{number}").unlink(missing_ok=True)
            command = self.on("/usr/bin/python3", "-c", WORKER, str(self.conf), f"w{number}", str(self.stop))
            environment = dict(os.environ, CEPH_ARGS="")
            self.running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        wait_for(lambda: self.ops() > 100, "clients work")

    def ops(self):
        files = self.stop.parent.glob("stop.ops.w*")
        return sum(int(file.read_text() or 0) for file in files)

    def go_on(self, seconds=60):
        before = self.ops()
        wait_for(lambda: self.ops() > before + 20, "clients go on", seconds)

    def end(self):
        """Lets each read all of its objects once more. Gives what is wrong, and the longest that a request took."""
        self.stop.touch()
        reports = [json.loads(worker.communicate(timeout=120)[0]) for worker in self.running]
        self.running = []
        return [name for report in reports for name in report["wrong"]], max(report["longest_s"] for report in reports)

    def kill(self):
        for worker in self.running:
            worker.kill()
            worker.communicate()
        self.running = []
