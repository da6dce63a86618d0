"""Images under qemu's block layer and fio, and file systems that travel through them.

A machine's disk is what an image is for: `qemu-io` and `qemu-img` reach it as a virtual machine would. A file system
is the strictest reader of all: its checker knows where every block belongs. The expectations hold on Ceph 16.2 as well.
"""
import hashlib
import json
import os
import random
import shutil
import unittest

import harness
from harness import run
from rbd_pool import KIB, MIB, SIZE, Images

# mkfs and fsck live where only root's path leads.
os.environ["PATH"] += ":/usr/sbin:/sbin"


class Disks(Images):
    """What both the block layer's tests and the file systems' need."""

    def url(self, name, **options):
        words = {"conf": os.environ["CEPH_CONF"], **options}
        return f"rbd:{self.spec(name)}:" + ":".join(f"{k}={v}" for k, v in words.items())

    def qemu_io(self, name, *commands, flags=(), check=True, **options):
        """Runs commands of qemu-io, which says what fails and succeeds nonetheless."""
        words = [word for command in commands for word in ("-c", command)]
        done = run("qemu-io", "-f", "raw", "-d", "unmap", *flags, *words, self.url(name, **options), check=False)
        wrong = [line for line in (done.stdout + done.stderr).splitlines() if "failed" in line or "error" in line.lower()]
        if check:
            self.assertEqual((done.returncode, wrong), (0, []), done.stderr)
        return done.stdout + done.stderr

    def image_info(self, *args):
        return json.loads(run("qemu-img", *args, "--output=json").stdout)


class Qemu(Disks):
    def test_reads_and_writes(self):
        self.create("io")
        self.qemu_io("io", "write -P 0x11 0 8M", "write -P 0x22 4190208 8192", "aio_write -P 0x33 10000384 65536", "aio_flush",
                     "read -P 0x11 0 4190208", "read -P 0x22 4190208 8192", "read -P 0x11 4198400 4190208",
                     "read -P 0x33 10000384 65536", "read -P 0 12M 4M", "flush")
        self.assertIn("verification failed", self.qemu_io("io", "read -P 0x12 0 512", check=False))
        self.assertEqual(self.read("io", 4190208, 8192), b"\x22" * 8192)

    def test_discards_and_zeroes(self):
        self.create("zero")
        self.qemu_io("zero", "write -P 0xaa 0 16M", "discard 4M 4M", "write -z 1M 64k", "write -z -u 8M 4M", "write -z -u 13000192 4096",
                     "read -P 0 4M 4M", "read -P 0 1M 64k", "read -P 0xaa 0 1M", "read -P 0 8M 4M", "read -P 0 13000192 4096",
                     "read -P 0xaa 13004288 3772928", "discard 12M 512", "read -P 0xaa 12583424 416768")
        used = self.tool_json("du", "--exact", self.spec("zero"))["images"][0]["used_size"]
        self.assertLess(used, 8 * MIB + 4096, "what was discarded takes no room")

    def test_caches(self):
        """A write through each cache mode is there when the next client looks."""
        self.create("cache")
        for number, (mode, cache) in enumerate((("writeback", "true"), ("none", "true"), ("writethrough", "true"), ("none", "false"))):
            self.qemu_io("cache", f"write -P {number + 1} 4k 64k", "read -P 0 0 4k", "flush", flags=("-t", mode), rbd_cache=cache)
            self.qemu_io("cache", f"read -P {number + 1} 4k 64k", flags=("-r",))

    def test_create_info_and_resize(self):
        run("qemu-img", "create", "-q", "-f", "raw", "-o", "cluster_size=1M", self.url("made"), "10M")
        info = self.image_info("info", self.url("made"))
        self.assertEqual((info["format"], info["virtual-size"], info["cluster-size"]), ("raw", 10 * MIB, MIB))
        run("qemu-img", "resize", "-q", "-f", "raw", self.url("made"), "20M")
        self.assertEqual(self.tool_json("info", self.spec("made"))["size"], 20 * MIB)
        self.assertNotEqual(run("qemu-img", "resize", "-f", "raw", self.url("made"), "5M", check=False).returncode, 0)
        run("qemu-img", "resize", "-q", "--shrink", "-f", "raw", self.url("made"), "5M")
        self.assertEqual(self.tool_json("info", self.spec("made"))["size"], 5 * MIB)
        self.assertNotEqual(run("qemu-img", "create", "-f", "raw", self.url("made"), "10M", check=False).returncode, 0)
        self.assertIn("No such file", run("qemu-img", "info", self.url("none"), check=False).stderr)

    def test_snapshots(self):
        self.create("snapped")
        self.qemu_io("snapped", "write -P 1 0 1M")
        run("qemu-img", "snapshot", "-c", "one", self.url("snapped"))
        self.qemu_io("snapped", "write -P 2 0 1M")
        self.assertIn("one", run("qemu-img", "snapshot", "-l", self.url("snapped")).stdout)
        self.qemu_io("snapped@one", "read -P 1 0 1M", flags=("-r",))
        run("qemu-img", "snapshot", "-a", "one", self.url("snapped"))
        self.qemu_io("snapped", "read -P 1 0 1M")
        run("qemu-img", "snapshot", "-d", "one", self.url("snapped"))
        self.assertEqual(self.tool_json("snap", "ls", self.spec("snapped")), [])

    def test_convert_there_and_back(self):
        with self.files() as files:
            rng = random.Random(4)
            with open(files / "raw", "wb") as raw:
                raw.truncate(2 * SIZE)
                for offset in (0, 65536, 5 * MIB - 1000, 9 * MIB, 2 * SIZE - 4096):
                    raw.seek(offset)
                    raw.write(rng.randbytes(4096))
            run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", files / "raw", files / "qcow2")
            run("qemu-img", "convert", "-f", "qcow2", "-O", "raw", files / "qcow2", self.url("there"))
            run("qemu-img", "convert", "-f", "raw", "-O", "raw", "-m", "8", "-W", self.url("there"), self.url("further"))
            self.assertIn("identical", run("qemu-img", "compare", "-f", "raw", "-F", "raw", files / "raw", self.url("further")).stdout)
            run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", self.url("further"), files / "back")
            self.assertIn("identical", run("qemu-img", "compare", "-F", "raw", files / "back", files / "raw").stdout)
            self.assertEqual(self.image_info("check", files / "back")["check-errors"], 0)
        mapped = self.image_info("map", "-f", "raw", self.url("there"))
        self.assertEqual([(e["start"], e["length"]) for e in mapped if not e["data"]], [(12 * MIB, 16 * MIB)])
        used = self.tool_json("du", "--exact", self.spec("there"))["images"][0]["used_size"]
        self.assertLess(used, 8 * MIB, "objects of zeroes alone are not written")

    def test_an_overlay_on_an_image(self):
        """A local qcow2 file over an image, and its commit into the image."""
        self.create("base")
        self.qemu_io("base", "write -P 1 0 8M")
        with self.files() as files:
            run("qemu-img", "create", "-q", "-f", "qcow2", "-b", self.url("base"), "-F", "raw", files / "top")
            run("qemu-io", "-f", "qcow2", "-c", "write -P 2 1M 1M", "-c", "read -P 1 0 1M", files / "top")
            run("qemu-img", "commit", "-q", "-f", "qcow2", files / "top")
        self.qemu_io("base", "read -P 1 0 1M", "read -P 2 1M 1M", "read -P 1 2M 6M")

    def test_bench(self):
        self.create("bench")
        said = run("qemu-img", "bench", "-f", "raw", "-w", "-c", "500", "-d", "16", "-s", "4096", "-S", "20480", self.url("bench")).stdout
        self.assertIn("Run completed", said)

    def fio(self, name, *flags):
        out = run("fio", "--name=t", "--ioengine=rbd", f"--pool={self.pool}", f"--rbdname={name}", "--clientname=admin", *flags,
                  "--output-format=json").stdout
        job = json.loads(out[out.index("{"):])["jobs"][0]
        self.assertEqual(job["error"], 0)
        return job

    def test_fio_reads_back_what_it_wrote(self):
        self.create("fio")
        for bs in ("4k", "12k", "1m"):
            job = self.fio("fio", "--rw=randwrite", f"--bs={bs}", "--size=16m", "--io_size=8m", "--iodepth=16", "--verify=crc32c", "--do_verify=1",
                           "--verify_fatal=1")
            self.assertGreater(job["read"]["total_ios"], 0)
        job = self.fio("fio", "--rw=randtrim", "--bs=64k", "--size=16m", "--io_size=4m", "--iodepth=8")
        self.assertGreater(job["trim"]["total_ios"], 0)


class FileSystems(Disks):
    def tree(self, root, seed):
        """Files of many sizes, one of them with holes; what is in them, by name."""
        rng = random.Random(seed)
        shas = {}
        for number in range(60):
            path = root / f"d{number % 7}" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            data = rng.randbytes(rng.choice([0, 1, 1000, 4096, 30_000, 200_000]))
            path.write_bytes(data)
            shas[f"d{number % 7}/f{number}"] = hashlib.sha256(data).hexdigest()
        with open(root / "holes", "wb") as file:
            for piece in range(4):
                file.seek(piece * MIB)
                file.write(rng.randbytes(5000))
        shas["holes"] = hashlib.sha256((root / "holes").read_bytes()).hexdigest()
        return shas

    def write_differences(self, name, before, after):
        """Brings an image from one content to the next as a file system would: the 4 KiB blocks that differ."""
        block = 4 * KIB
        with self.image(name) as image, open(before, "rb") as old, open(after, "rb") as new:
            pending, offset = [], 0
            while True:
                was, now = old.read(MIB), new.read(MIB)
                if not now:
                    break
                for at in range(0, len(now) if was != now else 0, block):
                    piece = now[at : at + block]
                    if piece != was[at : at + block]:
                        do = (image.aio_write, piece, offset + at) if any(piece) else None
                        if do:
                            pending.append(image.aio_write(piece, offset + at, lambda _: None))
                        else:
                            pending.append(image.aio_discard(offset + at, len(piece), lambda _: None))
                offset += len(now)
            for completion in pending:
                completion.wait_for_complete_and_cb()
                self.assertEqual(completion.get_return_value(), 0)
            image.flush()
        return len(pending)

    def test_ext4(self):
        with self.files() as files:
            (files / "tree").mkdir()
            shas = self.tree(files / "tree", 1)
            disk, later = files / "disk", files / "later"
            run("mkfs.ext4", "-q", "-F", "-d", files / "tree", "-E", "lazy_itable_init=0", disk, "48M")
            run("qemu-img", "convert", "-f", "raw", "-O", "raw", disk, self.url("ext4"))
            # The file system lives on: files go, others come.
            shutil.copy(disk, later)
            (files / "more").write_bytes(random.Random(2).randbytes(3 * MIB))
            script = "\n".join(["rm /holes", "mkdir /new", f"write {files}/more /new/more",
                                *(f"rm /d{n % 7}/f{n}" for n in range(0, 60, 3))])
            (files / "script").write_text(script + "\n")
            run("debugfs", "-w", "-f", files / "script", later)
            shas = {name: sha for name, sha in shas.items() if name != "holes" and int(name.split("f")[1]) % 3}
            shas["new/more"] = hashlib.sha256((files / "more").read_bytes()).hexdigest()
            self.tool("snap", "create", self.spec("ext4@before"), "--no-progress")
            self.assertGreater(self.write_differences("ext4", disk, later), 100)
            self.checked_ext4(self.spec("ext4"), files / "now", shas)
            run("qemu-img", "convert", "-f", "raw", "-O", "raw", self.url("ext4@before"), files / "then")
            run("e2fsck", "-fn", files / "then")
            self.assertIn("identical", run("qemu-img", "compare", "-f", "raw", "-F", "raw", disk, files / "then").stdout)
            # And in a clone of what it was, moved on by the same blocks.
            self.tool("clone", self.spec("ext4@before"), self.spec("ext4-clone"), "--rbd-default-clone-format", "2")
            self.write_differences("ext4-clone", disk, later)
            self.tool("flatten", self.spec("ext4-clone"), "--no-progress")
            self.checked_ext4(self.spec("ext4-clone"), files / "cloned", shas)

    def checked_ext4(self, spec, path, shas):
        self.tool("export", spec, path, "--no-progress")
        run("e2fsck", "-fn", path)
        out = path.with_suffix(".tree")
        out.mkdir()
        run("debugfs", "-R", f"rdump / {out}", path)
        found = {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in out.rglob("*")
                 if p.is_file()}
        self.assertEqual(found, shas)

    def test_xfs(self):
        with self.files() as files:
            (files / "tree").mkdir()
            self.tree(files / "tree", 3)
            lines = ["/boot/none", "0 0", "d--755 0 0"]
            for directory in sorted(p for p in (files / "tree").iterdir() if p.is_dir()):
                lines += [f"{directory.name} d--755 0 0", *(f"{p.name} ---644 0 0 {p}" for p in sorted(directory.iterdir())), "$"]
            lines += [f"holes ---644 0 0 {files}/tree/holes", "$"]
            (files / "proto").write_text("\n".join(lines) + "\n")
            disk = files / "disk"
            run("mkfs.xfs", "-q", "-p", files / "proto", "-d", f"file,name={disk},size=300m")
            self.tool("import", disk, self.spec("xfs"), "--no-progress")
            self.tool("export", self.spec("xfs"), files / "back", "--no-progress")
            run("xfs_repair", "-n", "-f", files / "back")
            self.assertEqual(run("cmp", disk, files / "back", check=False).stdout, "")
            # A change of the file system itself, by its own tool, travels as blocks.
            shutil.copy(disk, files / "later")
            run("xfs_admin", "-f", "-L", "renamed", "-U", "generate", files / "later")
            self.assertGreater(self.write_differences("xfs", disk, files / "later"), 0)
            self.tool("export", self.spec("xfs"), files / "again", "--no-progress")
            run("xfs_repair", "-n", "-f", files / "again")
            self.assertIn("renamed", run("xfs_admin", "-f", "-l", files / "again").stdout)


if __name__ == "__main__":
    unittest.main()
