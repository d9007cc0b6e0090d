"""Random numbers are distributed as they should be, and independent.

Of one executable: mean, variance and chi-square of each distribution, and chi-square of
pairs: of neighbours, of two steps, of two names, of two iterations, of two seeds. Seeds are
fixed, so that the numbers below are the same in each run; no more than 5 standard deviations
are allowed, which one test of 3 million misses by chance.

Arguments: meshc, the repository. `--draws 10000000` takes minutes and 3 GB."""

import argparse
import array
import math
import pathlib
import statistics
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("meshc")
parser.add_argument("root")
parser.add_argument("--draws", type=int, default=100000)
GIVEN = parser.parse_args()
sys.path[1:1] = [str(pathlib.Path(GIVEN.root) / "tests" / "plans")]

# pylint: disable=wrong-import-position
import compiler
import npy

LIMIT = 5
NORMAL = statistics.NormalDist()


def read(path):
    return array.array("f", npy.read_bytes(path))


class Test:
    def __init__(self):
        self.count = GIVEN.draws
        self.meshc = compiler.Compiler(GIVEN.meshc, GIVEN.root)
        self.folder = pathlib.Path(self.meshc.folder.name)
        self.program = self.folder / "draws"
        self.meshc.run("compile", str(pathlib.Path(__file__).parent / "draws.mesh"),
                       "-D", f"n={self.count}", "-o", str(self.program))
        # Two batches, so that there are two runs.
        npy.write(self.folder / "x.npy", array.array("f", bytes(8 * self.count)))
        self.problems = []
        self.largest = 0

    def draw(self, seed):
        names = ("iterations", "first", "second", "normal", "truncated")
        files = {name: self.folder / f"{name}-{seed}.npy" for name in names}
        subprocess.run([self.program, "predict", "--batch", "n", "--seed", str(seed), "--in",
                        f"x={self.folder / 'x.npy'}", "--out",
                        *(f"{name}={path}" for name, path in files.items())],
                       check=True, timeout=600, capture_output=True)
        return {name: read(path) for name, path in files.items()}

    def expect(self, what, value, mean, deviation):
        off = abs(value - mean) / deviation
        self.largest = max(self.largest, off)
        if not off <= LIMIT:
            self.problems.append(f"{what}: {value}, expected {mean} +- {deviation}")

    def check_counts(self, what, counts):
        """Chi-square of what should be equally many."""
        expected = sum(counts) / len(counts)
        square = sum((count - expected) ** 2 for count in counts) / expected
        freedom = len(counts) - 1
        self.expect(f"chi-square of {what}", square, freedom, math.sqrt(2 * freedom))

    def check_uniform(self, what, numbers, bins=64):
        if not all(0 < number <= 1 for number in numbers):
            self.problems.append(f"{what}: not within (0, 1]")
        counts = [0] * bins
        for number in numbers:
            counts[min(int(number * bins), bins - 1)] += 1
        self.check_counts(what, counts)
        self.check_moments(what, numbers, 1 / 2, 1 / 12, 1 / 80)

    def check_moments(self, what, numbers, mean, variance, fourth):
        """`fourth`: the fourth central moment."""
        count = len(numbers)
        self.expect(f"mean of {what}", math.fsum(numbers) / count, mean,
                    math.sqrt(variance / count))
        squares = math.fsum((number - mean) ** 2 for number in numbers) / count
        self.expect(f"variance of {what}", squares, variance,
                    math.sqrt((fourth - variance ** 2) / count))

    def check_pairs(self, what, first, second, bins=16):
        counts = [0] * bins ** 2
        for x, y in zip(first, second):
            counts[min(int(x * bins), bins - 1) * bins + min(int(y * bins), bins - 1)] += 1
        self.check_counts(f"pairs of {what}", counts)

    def check(self):
        n = self.count
        drawn, other = self.draw(1), self.draw(-2)
        first, second = drawn["first"], drawn["second"]
        for name in ("first", "second"):
            self.check_uniform(name, drawn[name])
        self.check_uniform("another seed", other["first"])
        self.check_uniform("iterations", drawn["iterations"])
        self.check_uniform("normal numbers", [NORMAL.cdf((x - 2) / 0.5)
                                              for x in drawn["normal"]])
        self.check_moments("normal numbers", drawn["normal"], 2, 0.25, 3 * 0.25 ** 2)
        below = NORMAL.cdf(-2)
        self.check_uniform("truncated normal numbers", [
            (NORMAL.cdf((x + 1) / 2) - below) / (1 - 2 * below) for x in drawn["truncated"]])
        if not all(abs(x + 1) <= 4 for x in drawn["truncated"]):
            self.problems.append("a truncated normal number beyond two deviations")
        self.check_pairs("neighbours", first[::2], first[1::2])
        self.check_pairs("neighbours but one", first[0::3], first[2::3])
        self.check_pairs("steps", first[:n], first[n:])
        self.check_pairs("names", first, second)
        self.check_pairs("seeds", first, other["first"])
        # Iterations lie one after the other, each with both runs.
        iterations = [drawn["iterations"][i * 2 * n:(i + 1) * 2 * n] for i in range(3)]
        self.check_pairs("iterations 0 and 1", iterations[0], iterations[1])
        self.check_pairs("iterations 1 and 2", iterations[1], iterations[2])
        self.check_pairs("an iteration and no loop", iterations[0], first)
        self.check_pairs("iterations and steps", iterations[1][:n], iterations[0][n:])
        print(f"{n} draws: at most {self.largest:.2f} standard deviations")
        if self.problems:
            sys.exit("\n".join(self.problems))


Test().check()
