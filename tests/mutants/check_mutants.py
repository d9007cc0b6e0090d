"""Mutated programs, specs, data files and executables end without a crash, without
taking two seconds for one, and with an exit code of the README.

Arguments: meshc-mutants, meshc, the repository. With `--count 100000 --commands 1000`
as many of each kind in one process, and as many by real command lines; `--seed N` for
others. Mutants that fail stay in the folder that is named then.
"""

import argparse
import gzip
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

SECONDS = 2


def exit_codes(root):
    section = re.search(r"^## Exit codes$(.*?)^## ",
                        (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    return {int(code) for code in re.findall(r"^\| (\d+) \|", section[1], re.M)} - {70}


def data_files(folder):
    """Sound ones of every form, small enough that a change meets what matters."""
    values = bytes(range(60))
    idx = {"idx-1": struct.pack(">4BI", 0, 0, 8, 1, 60) + values,
           "idx-3": struct.pack(">4B3I", 0, 0, 8, 3, 5, 3, 4) + values,
           "idx-f32": struct.pack(">4B2I", 0, 0, 13, 2, 5, 3) + values}
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }\n"
    npy = {"npy-1": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values,
           "npy-2": b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + values}
    idx.update({f"{name}.gz": gzip.compress(content) for name, content in list(idx.items())})
    for name, content in {**idx, **npy}.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in idx], [folder / name for name in npy]


def specs(root):
    found = sorted((root / "samples").glob("*.mesh"))
    found += sorted((root / "tests").glob("**/*.mesh"))
    assert len(found) >= 4, found
    return found


def programs(meshc, root, folder):
    """Plans are programs without kernels; `plan` leaves them for `explain`."""
    small = ["-D", "batch=12", "-D", "hidden=8", "-D", "pixel=6"]
    cases = {"cpu": [root / "samples/mlp.mesh", *small],
             "one": [root / "samples/mlp.mesh", *small, "--mesh", "data=3", "--layout",
                     "batch=data"],
             "cuda": [root / "samples/mlp.mesh", *small, "--target", "cuda"]}
    found = []
    for name, arguments in cases.items():
        cache = folder / name
        subprocess.run([meshc, "plan", *arguments], check=True, capture_output=True,
                       env={"PATH": "/usr/bin:/bin", "MESHC_CACHE_DIR": str(cache)})
        found.append(cache / "last-plan")
    return found


def mutate(content, numbers):
    content = bytearray(content)
    for _ in range(numbers.choice((1, 1, 3))):
        at = numbers.randrange(len(content))
        how = numbers.randrange(4)
        if how == 0:
            content[at] ^= 1 << numbers.randrange(8)
        elif how == 1:
            content[at] = numbers.randrange(256)
        elif how == 2:
            start = numbers.randrange(len(content))
            content[at:at + 16] = content[start:start + 16]
        elif numbers.randrange(4) == 0:
            del content[max(at, 1):]
    return bytes(content)


class Commands:
    """Mutants by real command lines."""

    def __init__(self, meshc, root, folder, numbers):
        self.folder, self.numbers, self.codes = folder, numbers, exit_codes(root)
        self.environment = {"PATH": "/usr/bin:/bin", "MESHC_CACHE_DIR": str(folder / "cache")}
        self.meshc = meshc
        self.faults, self.seen = [], {}
        self.spec = folder / "m.mesh"
        self.spec.write_text("""mesh d = 2
dim batch = 2
dim in = 3
dim class = 5
layout { batch -> d }
model m(x: f32[batch, in], y: i32[batch]) {
  param w: f32[in, class] = normal(stddev = 0.5)
  output loss = mean(cross_entropy(einsum(x, w -> batch, class), y, over = class))
}
data {
  x = idx("x", "x") / 255
  y = idx("y", "y")
}
train { minimize loss optimizer sgd(lr = 0.1) epochs 1 }
""", encoding="utf-8")
        self.program = folder / "m"
        subprocess.run([meshc, "compile", self.spec, "-o", self.program], check=True)
        (folder / "x").write_bytes(struct.pack(">4B2I", 0, 0, 8, 2, 4, 3) + bytes(12))
        (folder / "y").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes(4))

    def run(self, mutant, *command):
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True,
                                  env=self.environment, timeout=SECONDS, check=False)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = "hang"
        self.seen[code] = self.seen.get(code, 0) + 1
        if code not in self.codes:
            kept = self.folder / f"fault-{len(self.faults)}"
            kept.write_bytes(mutant)
            self.faults.append((kept, code, command))

    def executable(self):
        """Anywhere in what the seal covers but for what the loader reads before."""
        sound = self.program.read_bytes()
        begin = sound.index(b"MSHX") - 4
        content = bytearray(sound)
        # Of the same length: bytes that move take the code that checks with them.
        part = mutate(content[begin:begin + 4096], self.numbers)
        content[begin:begin + 4096] = part[:4096].ljust(4096, b"\0")
        if self.numbers.randrange(4) == 0:
            content = content[:len(sound) - self.numbers.randrange(1, 2000)]
        path = self.folder / "mutant"
        path.write_bytes(content)
        path.chmod(0o700)
        self.run(bytes(content), path, "train", "--data-dir", self.folder)

    def check(self):
        content = mutate(self.spec.read_bytes(), self.numbers)
        path = self.folder / "mutant.mesh"
        path.write_bytes(content)
        self.run(content, self.meshc, "plan", path)

    def data(self):
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        name = self.numbers.choice("xy")
        for other in "xy":
            (data / other).write_bytes((self.folder / other).read_bytes())
        content = (data / name).read_bytes()
        if self.numbers.randrange(2):
            content = gzip.compress(content)
        content = mutate(content, self.numbers)
        (data / name).write_bytes(content)
        self.run(content, self.program, "train", "--data-dir", data)


def main():
    parser = argparse.ArgumentParser()
    for name in ("mutants", "meshc", "root"):
        parser.add_argument(name, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--commands", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="meshc-mutants-"))
    idx, npy = data_files(folder)
    failed = False
    for kind, files in (("program", programs(given.meshc, given.root, folder)),
                        ("spec", specs(given.root)), ("idx", idx), ("npy", npy)):
        done = subprocess.run(
            [str(word) for word in (given.mutants, kind, given.seed, given.count, folder,
                                    *files)], stdout=subprocess.PIPE, check=False)
        counts = json.loads(done.stdout)
        print(counts, flush=True)
        failed |= counts["faults"] > 0 or counts["refused"] == 0
        assert counts["accepted"] + counts["refused"] + counts["faults"] == given.count
    commands = Commands(given.meshc, given.root, folder, random.Random(given.seed))
    for number in range(given.commands):
        (commands.executable, commands.check, commands.data)[number % 3]()
    print({"commands": given.commands, "exit codes": commands.seen})
    for fault in commands.faults:
        print("fault:", fault)
    if failed or commands.faults:
        sys.exit(f"mutants that failed are in {folder}")
    subprocess.run(["rm", "-r", folder], check=True)


main()
