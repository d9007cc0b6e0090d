"""Mutants of specs and data files by real command lines."""

import gzip
import struct
import subprocess

from processes import count

SPEC = """mesh d = 2
dim batch = 2
dim in = 3
dim class = 5
layout { batch -> d }
model m(x: f32[batch, in], y: i32[batch]) {
  param w: f32[in, class] = normal(stddev = 0.5)
  output loss = mean(cross_entropy(einsum(x / 255, w -> batch, class), y, over = class))
}
data over batch {
  x = idx("x", test = "x")
  y = idx("y", test = "y")
}
train { minimize loss optimizer sgd(lr = 0.1) epochs 1 }
"""


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
    """`meshc plan` of mutated specs, and training with mutated data."""

    def __init__(self, meshc, folder, ends, codes, numbers):
        self.meshc, self.folder, self.ends = meshc, folder, ends
        self.codes, self.numbers = codes, numbers
        self.faults, self.counts = [], {}
        self.spec = folder / "m.mesh"
        self.spec.write_text(SPEC, encoding="utf-8")
        self.program = folder / "m"
        subprocess.run([meshc, "compile", self.spec, "-o", self.program], check=True,
                       env=ends.environment)
        (folder / "x").write_bytes(struct.pack(">4B2I", 0, 0, 8, 2, 4, 3) + bytes(12))
        (folder / "y").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes(4))

    def run(self, mutant, *command):
        code = self.ends.run(*command)
        count(self.counts, code)
        if code not in self.codes:
            kept = self.folder / f"fault-command-{len(self.faults)}"
            kept.write_bytes(mutant)
            self.faults.append((kept, code, command))

    def plan(self):
        content = mutate(self.spec.read_bytes(), self.numbers)
        path = self.folder / "mutant.mesh"
        path.write_bytes(content)
        self.run(content, self.meshc, "plan", path)

    def train(self):
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
