"""Network namespaces as hosts: each has one interface, a veth whose other end is a port of a bridge in a namespace of its
own. Nothing of the machine's own network is touched, and everything goes with `close`.

Neighbours are fixed entries: what one host sends another is lost for as long as the entry names a link address that nobody
has. So a cut can be one-way, needs no packet filter, and looks like a network that swallows packets: nobody is told."""
import itertools
import os
import subprocess

NETWORK = "10.199.44."
NOBODY = "02:4c:4f:00:00:fe"
SERIAL = itertools.count()


def ip(*arguments):
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"ip {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def why_not():
    """Why there can be no hosts here; nothing where there can."""
    if os.geteuid():
        return "only root makes network namespaces"
    hosts = Hosts(())
    try:
        hosts.make()
    except OSError as error:
        return f"the kernel makes no network namespaces, bridges or veths: {error}"
    finally:
        hosts.close()
    return None


class Hosts:
    """Hosts by their names. `make` makes them, `close` removes them, also those of a `make` that failed."""

    def __init__(self, names):
        self.names = list(names)
        self.prefix = f"loligo-{os.getpid()}-{next(SERIAL)}-"
        self.made = []
        self.cuts = set()

    def make(self):
        self.namespace("")
        ip("-n", self.prefix, "link", "add", "br0", "type", "bridge")
        ip("-n", self.prefix, "link", "set", "br0", "up")
        for name in self.names:
            self.namespace(name)
            near, far = self.prefix + name, f"p{self.number(name)}"
            ip("-n", self.prefix, "link", "add", far, "type", "veth", "peer", "name", "eth0", "netns", near)
            ip("-n", self.prefix, "link", "set", far, "master", "br0", "up")
            ip("-n", near, "link", "set", "eth0", "address", self.link(name))
            ip("-n", near, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            ip("-n", near, "link", "set", "eth0", "up")
        for here, there in itertools.permutations(self.names, 2):
            self.meet(here, there, self.link(there))

    def namespace(self, name):
        ip("netns", "add", self.prefix + name)
        self.made.append(self.prefix + name)
        ip("-n", self.prefix + name, "link", "set", "lo", "up")

    def close(self):
        while self.made:
            subprocess.run(["ip", "netns", "delete", self.made.pop()], capture_output=True, timeout=30)

    def number(self, name):
        return self.names.index(name) + 1

    def address(self, name):
        return NETWORK + str(self.number(name))

    def link(self, name):
        return f"02:4c:4f:00:00:{self.number(name):02x}"

    def on(self, name, *command):
        """A command as it runs on a host."""
        return ["ip", "netns", "exec", self.prefix + name, *map(str, command)]

    def meet(self, here, there, link):
        entry = [self.address(there), "lladdr", link, "nud", "permanent", "dev", "eth0"]
        ip("-n", self.prefix + here, "neighbour", "replace", *entry)

    def lose(self, here, there):
        """What one host sends another is lost from now on."""
        self.meet(here, there, NOBODY)
        self.cuts.add((here, there))

    def part(self, some, others):
        """Two sets of hosts do not hear each other."""
        for one, other in itertools.product(some, others):
            self.lose(one, other)
            self.lose(other, one)

    def heal(self):
        """All hosts hear each other again."""
        while self.cuts:
            here, there = self.cuts.pop()
            self.meet(here, there, self.link(there))

    def plug(self, name, state):
        """Plugs a host's cable in ("up") or out ("down")."""
        ip("-n", self.prefix, "link", "set", f"p{self.number(name)}", state)
