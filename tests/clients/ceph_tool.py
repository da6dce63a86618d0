"""What the `ceph` tool does with the words of a command, within this process: many commands for the price of one start.

Follows /usr/bin/ceph of 16.2, whose parser (ceph_argparse) and socket client (ceph_daemon) it uses.
"""
import contextlib
import errno
import io
import json
import subprocess
import warnings

import ceph_argparse
import ceph_daemon

from harness import run
from rados_pool import connect


class Ceph:
    """Runs commands given as the tool's words; returns what the tool would have printed, and its exit status."""

    def __init__(self):
        self.cluster = connect()
        self.descriptions = {}
        self.sockets = {}

    def close(self):
        self.cluster.shutdown()

    def described(self, target):
        """The commands that a daemon offers."""
        if target not in self.descriptions:
            code, out, says = ceph_argparse.json_command(self.cluster, target=target, prefix="get_command_descriptions")
            if code:
                return code, says, None
            self.descriptions[target] = ceph_argparse.parse_json_funcsigs(out.decode(), "cli")
        return 0, "", self.descriptions[target]

    def __call__(self, *words, form=None, check=True):
        words = [str(word) for word in words]
        if words[0] == "daemon":
            done = self.daemon(words)
        else:
            done = self.command(words, form)
        if check and done.returncode:
            raise AssertionError(f"ceph {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def command(self, words, form):
        target = ceph_argparse.find_cmd_target(words)
        rest = words[2:] if words[0] == "tell" else words
        code, says, known = self.described(target)
        out, advice = b"", io.StringIO()
        if known is not None:
            with contextlib.redirect_stderr(advice):
                arguments = ceph_argparse.validate_command(known, rest)
            if not arguments:
                code, says = -errno.EINVAL, "invalid command"
            else:
                given = {**arguments, "format": form} if form else arguments
                code, out, says = ceph_argparse.json_command(self.cluster, target=target, argdict=given)
        if code < 0:
            says = f"Error {errno.errorcode.get(-code, 'Unknown')}: {says}"
        # What is above 0 is a count that some commands answer with; the tool ends well then.
        return subprocess.CompletedProcess(words, max(-code, 0), out.decode(), advice.getvalue() + says)

    def daemon(self, words):
        name, rest = words[1], words[2:]
        if name not in self.sockets:
            self.sockets[name] = run("ceph-conf", "-n", name, "--show-config-value", "admin_socket").stdout.strip()
        # The module leaves its socket to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return subprocess.CompletedProcess(words, 0, ceph_daemon.admin_socket(self.sockets[name], rest).decode(), "")
        except Exception as refused:
            return subprocess.CompletedProcess(words, errno.EINVAL, "", f"admin_socket: {refused}")

    def json(self, *words):
        """The answer of `ceph ... -f json`, parsed."""
        return json.loads(self(*words, form="json").stdout)
