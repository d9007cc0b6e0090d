"""Power cuts: what a training does to its files is recorded, and behind every call a disk
is made up that has lost what was not synced. No checkpoint on it is damaged, one whose
folder was synced is there, or one after it, and a training goes on from it.

What a disk may have kept of what was not synced:

    nothing   contents as they were synced last, names as their folders were synced last
    names     every name there was, contents as they were synced last, the rest zeros
    some      of each folder the names up to a random moment, of each file a random part

Several processes write their calls into one record, in their order."""

import os
import pathlib
import random
import shutil
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "ranks"))
import processes  # pylint: disable=wrong-import-position

APP, RECORDER = sys.argv[1:]
SAVES = 4


class File:
    def __init__(self):
        self.content = bytearray()
        self.synced = bytearray()


class Folder:
    """The names in it, after each change, and as they were synced last."""

    def __init__(self):
        self.history = [{}]
        self.synced = 0

    def change(self, **names):
        current = dict(self.history[-1])
        for name, entry in names.items():
            if entry is None:
                del current[name]
            else:
                current[name] = entry
        self.history.append(current)


class Disk:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.top = Folder()
        self.files = {}

    def find(self, path):
        """The folder that has a path, and its name in it."""
        folder = self.top
        *parents, name = pathlib.Path(path).relative_to(self.root).parts
        for parent in parents:
            folder = folder.history[-1][parent]
        return folder, name

    def take(self, pid, words):
        kind, *rest = words
        if kind in ("make", "open"):
            number, path = rest
            folder, name = self.find(path)
            if kind == "make":
                folder.change(**{name: File()})
            self.files[pid, number] = folder.history[-1][name]
        elif kind == "folder":
            folder, name = self.find(rest[0])
            folder.change(**{name: Folder()})
        elif kind == "write":
            content = self.files[pid, rest[0]].content
            place, data = int(rest[1]), bytes.fromhex(rest[2])
            content.extend(bytes(max(0, place + len(data) - len(content))))
            content[place:place + len(data)] = data
        elif kind == "length":
            content = self.files[pid, rest[0]].content
            content.extend(bytes(max(0, int(rest[1]) - len(content))))
        elif kind == "sync":
            file = self.files[pid, rest[0]]
            file.synced = bytearray(file.content)
        elif kind == "syncfolder":
            folder = self.top
            path = pathlib.Path(os.path.normpath(rest[0]))
            for part in path.relative_to(self.root).parts:
                folder = folder.history[-1][part]
            folder.synced = len(folder.history) - 1
        elif kind == "rename":
            before, old = self.find(rest[0])
            after, new = self.find(rest[1])
            entry = before.history[-1][old]
            # One change of both names, as file systems promise.
            assert before is after, rest
            before.change(**{old: None, new: entry})
        elif kind == "remove":
            folder, name = self.find(rest[0])
            folder.change(**{name: None})
        else:
            raise ValueError(words)

    def write(self, target, kept, chosen):
        """What is left of it."""
        def names(folder):
            last = len(folder.history) - 1
            place = {"nothing": folder.synced, "names": last,
                     "some": chosen.randint(folder.synced, last)}[kept]
            return folder.history[place]

        def content(file):
            if kept == "nothing":
                return bytes(file.synced)
            lost = bytearray(file.content)
            for place in range(0, len(lost), 512):  # a sector
                if kept == "names" or chosen.random() < 0.5:
                    part = bytes(file.synced[place:place + 512])
                    size = len(lost[place:place + 512])
                    lost[place:place + 512] = part + bytes(size - len(part))
            return bytes(lost)

        def write_folder(folder, path):
            path.mkdir()
            for name, entry in names(folder).items():
                if isinstance(entry, Folder):
                    write_folder(entry, path / name)
                else:
                    (path / name).write_bytes(content(entry))

        write_folder(self.top, target)

    def durable(self):
        """The last checkpoint that no power cut takes away."""
        folder = self.top.history[self.top.synced].get("saved", Folder())
        return max((int(name[5:]) for name in folder.history[folder.synced]
                    if name.startswith("step-")), default=0)


def record(place, ranks):
    """The calls of a training, as lists of words, in order."""
    disk, calls = place / "disk", place / "calls"
    saved = disk / "saved"
    disk.mkdir()
    command = [APP, "train", "--data-dir", place, "--steps", SAVES, "--no-eval", "--save", saved,
               "--save-every", 1, "--keep", 2]
    if ranks > 1:
        command += ["--processes", ranks]
    done = processes.run(command, env=processes.environment(
        LD_PRELOAD=RECORDER, RECORDED=str(disk), RECORD=str(calls)))
    assert done.returncode == 0, done.stderr
    return [line.split(" ") for line in calls.read_text(encoding="utf-8").splitlines()]


def check_disk(place, target, durable, goes_on):
    steps = sorted(int(path.name[5:]) for path in target.glob("step-*"))
    assert not durable or (steps and steps[-1] >= durable), f"{durable} is gone: {steps}"
    if not steps:
        return 0
    done = processes.run([APP, "ckpt", "verify", target])
    assert done.returncode == 0, done.stdout + done.stderr
    if goes_on:
        done = processes.run([APP, "train", "--data-dir", place, "--steps", SAVES + 2,
                              "--no-eval", "--save", target, "--resume", target])
        assert done.returncode == 0, done.stderr
    return len(steps)


def main():
    for ranks in (1, 3):
        with processes.folder() as place:
            processes.write_linear_data(place)
            calls = record(place, ranks)
            kinds = [words[1] for words in calls]
            for kind, least in (("rename", SAVES), ("sync", SAVES), ("syncfolder", 2 * SAVES),
                                ("write", 2 * SAVES)):
                assert kinds.count(kind) >= least, (kind, kinds)
            disk = Disk(place / "disk")
            numbers = random.Random(ranks)
            disks = sound = 0
            for number, words in enumerate(calls):
                disk.take(words[0], words[1:])
                for kept in ("nothing", "names", "some"):
                    target = place / "left"
                    disk.write(target, kept, numbers)
                    try:
                        sound += check_disk(place, target / "saved", disk.durable(),
                                            numbers.random() < 0.1)
                    except AssertionError as error:
                        sys.exit(f"behind call {number} of {ranks} processes, {words[1:4]}, of "
                                 f"what was not synced {kept} was kept: {error}")
                    shutil.rmtree(target)
                    disks += 1
            assert disk.durable() == SAVES
            assert sound > len(calls), sound
            print(f"{ranks} processes: {disks} disks behind {len(calls)} calls, {sound} sound "
                  "checkpoints")


main()
