"""Compiled trainings go on elsewhere: on other meshes and layouts, split and whole, some
unevenly, in one process or several, on CPUs, on emulated GPUs that devices share or have
for themselves, computing in f32, bf16 or fp16.

- However often a checkpoint is loaded and saved again, somewhere else each time, every
  value stays the same, bit for bit.
- A training that goes on where it was has the curve of one that nobody interrupted, bit
  for bit; elsewhere up to the order of sums (tests/plans/curves.py).
- Python's `safetensors`, where it is installed, and a reader of some lines find the
  values under their names.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys

MESHC = sys.argv.pop(1)
ROOT = pathlib.Path(sys.argv.pop(1))
LIBRARIES = sys.argv.pop(1)
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks", "driver", ".")]

# pylint: disable=wrong-import-position
import arrays
import compiler
import curves
import packages
import processes

SIZES = {"batch": 10, "pixel": 9, "hidden": 7, "class": 5}
STEPS = curves.STEPS


class Place:
    """An executable and how it is started."""

    def __init__(self, test, name, mesh, layout, *flags, ranks=1, gpus=0):
        self.name, self.devices, self.ranks = name, curves.get_devices(mesh), ranks
        target = ("--target", "cuda", "--gpu", "host") if gpus else ()
        program = test.model.compile(mesh, layout, *target, *flags)
        self.program = test.folder / f"program-{name}"
        shutil.move(program, self.program)
        self.flags = ["--processes", str(ranks)] if ranks > 1 else []
        if gpus == 1:
            self.flags = ["--devices-per-gpu", str(self.devices)]
        self.environment = processes.environment(
            MESHC_CUDA_LIBRARIES=LIBRARIES, MESHC_EMULATION_DEVICES=str(gpus))
        self.test = test

    def run(self, *arguments, code=0):
        done = subprocess.run([str(word) for word in (self.program, *arguments)],
                              capture_output=True, text=True, check=False,
                              env=self.environment, timeout=300)
        assert done.returncode == code, (self.name, arguments, done.stdout, done.stderr)
        return done

    def train(self, steps, metrics, *arguments, code=0):
        return self.run("train", "--data-dir", self.test.folder, "--no-eval", "--steps", steps,
                        "--metrics", metrics, *self.flags, *arguments, code=code)


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        curves.write_data(self.folder, side=3, classes=5)
        self.model = curves.make_classifier(self.meshc, SIZES)
        self.places = [
            Place(self, "one", "a=1", ""),
            Place(self, "square", "a=2,b=2", "batch=a,hidden=b"),
            Place(self, "three", "a=3", "pixel=a"),
            Place(self, "eight", "a=2,b=2,c=2", "batch=c,pixel=a,hidden=b"),
            Place(self, "ranks2", "a=2,b=2", "hidden=a+b", ranks=2),
            Place(self, "ranks3", "a=3", "hidden=a", ranks=3),
            Place(self, "ranks4", "a=8", "hidden=a", ranks=4),
            Place(self, "shared", "a=2,b=3", "batch=a,hidden=b", gpus=1),
            Place(self, "gpus", "a=3", "hidden=a", gpus=3),
        ]
        self.halves = [
            Place(self, "bf16", "a=2", "hidden=a", "--precision", "bf16"),
            Place(self, "fp16", "a=2", "batch=a", "--precision", "fp16"),
        ]

    def check_chain(self):
        """No step is made: what is saved is what was loaded."""
        first = self.folder / "first"
        self.places[1].train(7, self.folder / "m", "--seed", 3, "--save", first)
        chain = [*self.places, *self.places]
        random.Random(1).shuffle(chain)
        before = first
        for number, place in enumerate(chain):
            after = self.folder / f"link{number}"
            place.train(7, self.folder / "m", "--resume", before, "--save", after)
            done = place.run("ckpt", "diff", first, after)
            assert "values, equal bit for bit" in done.stdout, done.stdout
            place.run("ckpt", "verify", after)
            if before != first:
                shutil.rmtree(before)
            before = after

    def check_curves(self):
        numbers = random.Random(2)
        for place in self.places:
            through = self.folder / "through.jsonl"
            place.train(STEPS, through, "--seed", 3)
            expected = processes.read_metrics(through)
            problems = self.model.check([step["loss"] for step in expected], place.name)
            assert not problems, problems
            # Here, with a checkpoint between any two steps, and elsewhere.
            stop = numbers.randint(1, STEPS - 1)
            saved, metrics = self.folder / "saved", self.folder / "metrics.jsonl"
            place.train(stop, metrics, "--seed", 3, "--save", saved, "--save-every", 1)
            kept = self.folder / "kept.jsonl"
            shutil.copy(metrics, kept)
            place.train(STEPS, metrics, "--resume", saved)
            assert processes.read_metrics(metrics) == expected, (place.name, stop)
            other = numbers.choice([one for one in self.places if one is not place])
            other.train(STEPS, kept, "--resume", saved)
            found = processes.read_metrics(kept)
            assert [step["step"] for step in found] == list(range(1, STEPS + 1))
            assert found[:stop] == expected[:stop]
            problems = self.model.check([step["loss"] for step in found],
                                        f"{place.name}, then {other.name}")
            assert not problems, problems
            shutil.rmtree(saved)
            metrics.unlink()

    def check_precisions(self):
        """Parameters and state are the same whatever computes with them. The loss scale of
        fp16 is saved too; where there is none it begins anew."""
        first, metrics = self.folder / "first", self.folder / "m"
        before, after = first, None
        for number, place in enumerate((*self.halves, self.places[1], self.halves[1],
                                        self.halves[0], self.places[2])):
            after = self.folder / f"half{number}"
            place.train(7, metrics, "--resume", before, "--save", after)
            scaled = place is self.halves[1]
            done = place.run("ckpt", "diff", first, after, code=3 if scaled else 0)
            if scaled:
                lines = done.stdout.splitlines()
                assert len(lines) >= 2 and all(
                    line.startswith("fp16/") and line.endswith("is in the second one alone")
                    for line in lines), lines
            before = after
        # fp16 goes on with its own scale, bit for bit.
        scaled = self.halves[1]
        through, again = self.folder / "scale.jsonl", self.folder / "again.jsonl"
        scaled.train(STEPS, through, "--seed", 3)
        alone = self.folder / "scaled"
        scaled.train(9, again, "--seed", 3, "--save", alone)
        scaled.train(STEPS, again, "--resume", alone)
        assert processes.read_metrics(again) == processes.read_metrics(through)
        shutil.rmtree(alone)

    def check_files(self):
        """What Python makes of a file of one process."""
        saved = self.folder / "read"
        place = self.places[1]
        place.train(2, self.folder / "m", "--save", saved)
        shard = saved / "step-00000002" / "shard-00000-of-00001.safetensors"
        content = shard.read_bytes()
        length, = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        names = {"w1", "b1", "w2", "b2"}
        names |= {f"adam/{kind}/{name}" for kind in "mv" for name in names}
        assert set(header) == names | {"__metadata__"}, header
        assert (8 + length) % 4096 == 0
        assert header["w1"]["shape"] == [SIZES["pixel"], SIZES["hidden"]]
        if packages.find(ROOT, "safetensors", "numpy"):
            from safetensors.numpy import load_file
            tensors = load_file(shard)
            assert set(tensors) == names
            begin, end = header["w1"]["data_offsets"]
            assert tensors["w1"].tobytes() == content[8 + length + begin:8 + length + end]
        else:
            print("not read by Python's safetensors, see tests/install-python")

    def check_evaluation(self):
        """Parameters of a checkpoint are evaluated as those of the training that has saved
        it, wherever that is; a step of several can be named."""
        saved = self.folder / "evaluated"
        place = self.places[1]
        place.train(40, self.folder / "m", "--save", saved, "--save-every", 20)
        expected = place.run("train", "--data-dir", self.folder, "--steps", 40, *place.flags)
        assert "test loss" in expected.stdout, expected.stdout
        found = place.run("eval", "--data-dir", self.folder, "--from", saved, *place.flags)
        assert found.stdout == expected.stdout, (found.stdout, expected.stdout)
        # Of arrays the loss has nine digits.
        numbers, samples = random.Random(4), 23
        image, label = self.folder / "image.npy", self.folder / "label.npy"
        image.write_bytes(arrays.npy("|u1", [samples, SIZES["pixel"]],
                                     [numbers.randrange(256)
                                      for _ in range(samples * SIZES["pixel"])]))
        label.write_bytes(arrays.npy("|u1", [samples],
                                     [numbers.randrange(SIZES["class"]) for _ in range(samples)]))

        def predict(other, path):
            done = other.run("predict", "--in", f"image={image}", f"label={label}", "--from",
                             path, *other.flags)
            return float(done.stdout.split("loss ")[1].split()[0])

        loss, before = predict(place, saved), predict(place, saved / "step-00000020")
        assert abs(before - loss) > 1e-4 * abs(loss), (before, loss)
        for other in self.places:
            for path, right in ((saved, loss), (saved / "step-00000020", before)):
                found = predict(other, path)
                # Sums of f32 in another order.
                assert abs(found - right) <= 1e-6 * abs(right), (other.name, found, right)
        shutil.rmtree(saved)

    def check_other_models(self):
        saved = self.folder / "other"
        self.places[0].train(2, self.folder / "m", "--save", saved)
        self.model.sizes = [flag.replace("hidden=7", "hidden=8") for flag in self.model.sizes]
        wider = Place(self, "wider", "a=1", "")
        done = wider.train(3, self.folder / "m", "--resume", saved, code=1)
        assert "error[MR0603]" in done.stderr and "9 of its values differ" in done.stderr
        assert "'w1' is f32[pixel=9, hidden=7] in the checkpoint, f32[pixel=9, hidden=8] in " \
            "the model" in done.stderr, done.stderr
        done = wider.run("ckpt", "diff", saved, code=1)
        assert done.stdout.count("\n") == 9, done.stdout


def main():
    test = Test()
    test.check_chain()
    test.check_curves()
    test.check_precisions()
    test.check_files()
    test.check_evaluation()
    test.check_other_models()


main()
