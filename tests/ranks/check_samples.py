"""Both samples on several meshes and layouts, over several processes: every bit as
in one. Arguments: meshc, the repository."""

import json
import pathlib
import shutil
import struct
import sys
import unittest

import processes

MESHC = sys.argv.pop(1)
SAMPLES = pathlib.Path(sys.argv.pop(1)) / "samples"
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")

MLP = [
    (["--mesh", "data=4", "--layout", "batch=data"], (2, 3, 4)),
    (["--mesh", "data=2,model=2", "--layout", "batch=data,hidden=model"], (2, 4)),
    (["--mesh", "a=3,b=2", "--layout", "batch=b,hidden=a"], (2, 3)),
    (["--mesh", "m=5", "--layout", "hidden=m"], (3, 5)),
]
TRANSFORMER = [
    (["--mesh", "data=4,model=2", "--layout", "batch=data,heads=model,d_ff=model"], (2, 3)),
    (["--mesh", "data=2,model=2", "--layout", "batch=data+model"], (4,)),
    (["--mesh", "model=3", "--layout", "d_model=model"], (2, 3)),
]
TRANSFORMER_SIZES = [word for size in ("batch=8", "pos=7", "d_model=12", "heads=4", "d_head=5",
                                       "d_ff=24") for word in ("-D", size)]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np"]


class Samples(unittest.TestCase):
    def setUp(self):
        place = processes.folder()
        self.folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)

    def compile(self, spec, flags):
        app = self.folder / "app"
        done = processes.run([MESHC, "compile", SAMPLES / spec, *flags, "-o", app])
        self.assertEqual(done.returncode, 0, done.stderr)
        return app

    def ways(self, counts):
        """Ways to start several processes: words before and behind the command."""
        for ranks in counts:
            yield [], ["--processes", ranks]
        if shutil.which("mpirun"):
            yield [*MPIRUN, counts[-1]], []

    def test_the_classifier_trains_alike(self):
        if not IMAGES.exists():
            self.skipTest("dataset-fashion-mnist is not installed")
        for flags, counts in MLP:
            app = self.compile("mlp.mesh", [*flags, "-D", "batch=24", "-D", "hidden=40"])
            expected = None
            for before, behind in [([], []), *self.ways(counts)]:
                metrics = self.folder / "metrics.jsonl"
                done = processes.run([*before, app, "train", "--data-dir", IMAGES, "--steps", 4,
                                      "--seed", 3, "--metrics", metrics, *behind])
                self.assertEqual(done.returncode, 0, done.stderr)
                found = (processes.read_metrics(metrics), done.stdout)
                self.assertEqual(len(found[0]), 4)
                expected = expected or found
                self.assertEqual(found, expected, (flags, before, behind))

    def test_the_transformer_trains_alike(self):
        for flags, counts in TRANSFORMER:
            app = self.compile("transformer_block.mesh", [*flags, *TRANSFORMER_SIZES])
            expected = None
            for before, behind in [([], []), *self.ways(counts)]:
                done = processes.run([*before, app, "bench", "--steps", 3, "--seed", 2, *behind])
                self.assertEqual(done.returncode, 0, done.stderr)
                loss = json.loads(done.stdout)["loss"]
                expected = expected or loss
                self.assertEqual(loss, expected, (flags, before, behind))

    def test_whole_tensors_are_alike(self):
        """Outputs of one evaluation, written by the first rank."""
        spec = self.folder / "m.mesh"
        spec.write_text("""
mesh a = 2, b = 2
dim rows = 7
dim inner = 6
dim class = 5
layout { rows -> a  inner -> b }
model m(x: f32[rows, inner]) {
  param w: f32[inner, class] = normal(stddev = 0.5)
  let y = tanh(einsum(x, w -> rows, class))
  output y = y
  output z = einsum(x, x -> inner)
  output loss = mean(y * y)
}
train { minimize loss optimizer sgd(lr = 0.1) steps 1 }
""", encoding="utf-8")
        x = self.folder / "x.npy"
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 6), }"
        header += " " * (117 - len(header)) + "\n"
        x.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                      struct.pack("<42f", *(((i * 37) % 11) / 7 - 0.7 for i in range(42))))
        app = self.folder / "app"
        done = processes.run([MESHC, "compile", spec, "-o", app])
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = None
        for before, behind in [([], []), *self.ways((2, 3, 4))]:
            files = [self.folder / name for name in ("y.npy", "z.npy", "loss.npy")]
            for file in files:
                file.unlink(missing_ok=True)
            done = processes.run([*before, app, "predict", "--init", "random", "--in",
                                  f"x={x}", "--out", f"y={files[0]}", "--out", f"z={files[1]}", "--out",
                                  f"loss={files[2]}", *behind])
            self.assertEqual(done.returncode, 0, done.stderr)
            found = [file.read_bytes() for file in files]
            expected = expected or found
            self.assertEqual(found, expected, (before, behind))


unittest.main(verbosity=2)
