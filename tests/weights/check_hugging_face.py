"""Files of Hugging Face's GPT-2 and BERT, by samples/weights/*.map, in samples/gpt2.mesh and
samples/bert.mesh: logits are those of their definition in NumPy, on one device, on a mesh that
divides no size, and in two processes. What is exported is what was read, bit for bit.

Weights are random, sizes small and uneven. Files have or lack the prefix, buffers and copies
of tensors; some have f16, some are several, some have gamma and beta.

Arguments: meshc, the repository."""

import json
import pathlib
import subprocess
import sys

MESHC = sys.argv.pop(1)
ROOT = pathlib.Path(sys.argv.pop(1))
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", ".")]

# pylint: disable=wrong-import-position
import compiler
import packages

packages.need(ROOT, "numpy", "safetensors")

import numpy
from safetensors.numpy import load_file, save_file

import hugging_face

MESHES = {"one": "data=1,model=1", "split": "data=2,model=3"}
# How a file is run: the mesh and the number of processes.
PLACES = (("one", 1), ("split", 1), ("split", 2))


class Case:
    """A model of some sizes and its inputs. `right` are its logits in f64."""

    def __init__(self, spec, sizes, samples, tensors):
        self.spec, self.sizes, self.tensors = spec, sizes, tensors
        self.numbers = numpy.random.default_rng(7)
        self.shape = (samples, sizes["pos"])

    def draw(self, size):
        return self.numbers.integers(0, self.sizes[size], self.shape, dtype=numpy.int32)

    def set_logits(self, compute):
        """Rounding to f32 takes NumPy's own pass off by some error. Another order of its sums
        gives one that is about as large; eight times as much, and no more than 1e-5 of the
        largest logit, is far less than what any mistake gives."""
        self.right = compute()
        error = numpy.abs(compute(floats=numpy.float32) - self.right).max()
        self.bound = 8 * error
        largest = numpy.abs(self.right).max()
        assert 0 < self.bound < 1e-5 * largest, (self.spec, self.bound, largest)
        # The other gelu and another epsilon would be noticed.
        others = [numpy.abs(compute(form=form, epsilon=epsilon) - self.right).max()
                  for form in (hugging_face.TANH, hugging_face.ERF)
                  for epsilon in (1e-5, 1e-6, 1e-12)]
        assert sum(other <= 4 * self.bound for other in others) == 1, (others, self.bound)

    def check(self, found, where):
        assert found.shape == self.right.shape and found.dtype == numpy.float32, found.shape
        difference = numpy.abs(found - self.right).max()
        assert difference <= self.bound, (self.spec, where, difference, self.bound)


class Gpt2(Case):
    def __init__(self, sizes, samples, stored=numpy.float32):
        tensors = {name: tensor.astype(stored)
                   for name, tensor in hugging_face.make_gpt2(sizes, seed=1).items()}
        super().__init__("gpt2", sizes, samples, tensors)
        token, label = self.draw("vocab"), self.draw("vocab")
        self.inputs = {"token": token, "next": label}
        self.set_logits(lambda **how: hugging_face.get_gpt2_logits(
            tensors, sizes["heads"], token, **how))
        self.loss = hugging_face.get_cross_entropy(self.right, label).mean()


class Bert(Case):
    def __init__(self, sizes, stored=numpy.float32):
        tensors = {name: tensor.astype(stored)
                   for name, tensor in hugging_face.make_bert(sizes, seed=2).items()}
        # The loss is a mean over all labels that count in a batch: samples are one batch.
        super().__init__("bert", sizes, sizes["batch"], tensors)
        token, kind, label = self.draw("vocab"), self.draw("kinds"), self.draw("vocab")
        # Samples are filled up from different positions on, the last one from its first.
        filled = numpy.linspace(self.shape[1], 0, self.shape[0]).astype(int)
        mask = (numpy.arange(self.shape[1]) < filled[:, None]).astype(numpy.int32)
        weight = (self.numbers.random(self.shape) < 0.3).astype(numpy.float32)
        assert 0 < weight.sum() < weight.size
        self.inputs = {"token": token, "kind": kind, "mask": mask, "label": label,
                       "weight": weight}
        self.set_logits(lambda **how: hugging_face.get_bert_logits(
            tensors, sizes["heads"], token, kind, mask, **how))
        entropy = hugging_face.get_cross_entropy(self.right, label)
        self.loss = (weight * entropy).sum() / weight.sum()


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)

    def compile(self, case):
        """A program for each mesh."""
        sizes = [f"-D{name}={size}" for name, size in case.sizes.items()]
        programs = {}
        for name, mesh in MESHES.items():
            programs[name] = self.folder / f"{case.spec}-{name}"
            self.meshc.run("compile", f"samples/{case.spec}.mesh", "-o", str(programs[name]),
                           "--mesh", mesh, *sizes)
        return programs

    def check_logits(self, case, programs, weights):
        arguments = [*weights, "--batch", "batch", "--in"]
        for name, values in case.inputs.items():
            path = self.folder / f"{name}.npy"
            numpy.save(path, values)
            arguments.append(f"{name}={path}")
        logits, loss = self.folder / "logits.npy", self.folder / "loss.npy"
        for mesh, processes in PLACES:
            self.meshc.execute(str(programs[mesh]), "predict", *arguments, "--out",
                               f"logits={logits}", f"loss={loss}", "--processes",
                               str(processes))
            case.check(numpy.load(logits), (mesh, processes))
            found = float(numpy.load(loss))
            # A loss is off by no more than twice what its logits are.
            assert abs(found - case.loss) <= 2 * case.bound + 1e-6 * case.loss, \
                (case.spec, mesh, processes, found, case.loss)
            logits.unlink()
            loss.unlink()

    def check_export(self, case, programs, weights, rename=lambda name: name):
        """A map writes the file that it reads, with prefixes, without what it ignores."""
        exported = self.folder / "exported.safetensors"
        self.meshc.execute(str(programs["split"]), "export", *weights, "--to", str(exported))
        found = load_file(exported)
        expected = {rename(name): tensor.astype(numpy.float32)
                    for name, tensor in case.tensors.items()}
        assert set(found) == set(expected), set(found) ^ set(expected)
        for name, tensor in expected.items():
            assert found[name].dtype == numpy.float32 and found[name].shape == tensor.shape, name
            assert found[name].tobytes() == tensor.tobytes(), name
        exported.unlink()

    def check_choice(self, case, programs, weights):
        """A part of the parameters, rounded; a file that is made of more than that."""
        exported = self.folder / "chosen.safetensors"
        export = [str(programs["split"]), "export", *weights, "--to", str(exported)]
        self.meshc.execute(*export, "--only", "decoder/norm/*", "--only", "word_embedding",
                           "--dtype", "fp16")
        found = load_file(exported)
        names = ["ln_f.weight", "ln_f.bias", "wte.weight"]
        assert set(found) == {f"transformer.{name}" for name in names}, set(found)
        for name in names:
            right = case.tensors[name].astype(numpy.float16)
            assert found[f"transformer.{name}"].dtype == numpy.float16
            assert found[f"transformer.{name}"].tobytes() == right.tobytes(), name
        exported.unlink()
        for flags, said in ((["--only", "norm"], "--only 'norm' fits no parameter"),
                            (["--only", "*/query/weight"], "has parameter 'decoder/layer/block/"
                             "attn/key/weight', which is not exported")):
            done = subprocess.run([*export, *flags], capture_output=True, text=True, check=False)
            assert done.returncode == 1 and said in done.stderr, done.stderr
            assert not exported.exists()

    def get_flags(self, path, map_name):
        return ["--from", str(path), "--names", str(ROOT / "samples/weights" / map_name)]

    def check_gpt2(self):
        case = Gpt2({"batch": 3, "places": 7, "pos": 7, "d_model": 15, "heads": 3, "d_ff": 60,
                     "layers": 3, "vocab": 23}, samples=5)
        programs = self.compile(case)
        plain = self.folder / "gpt2.safetensors"
        save_file(case.tensors, plain)
        full = self.folder / "gpt2-full.safetensors"
        tensors = {f"transformer.{name}": tensor
                   for name, tensor in (case.tensors |
                                        hugging_face.get_gpt2_buffers(case.sizes)).items()}
        save_file(tensors | {"lm_head.weight": case.tensors["wte.weight"].copy()}, full)
        for path in (plain, full):
            flags = self.get_flags(path, "gpt2.map")
            self.check_logits(case, programs, flags)
            self.check_export(case, programs, flags, "transformer.{}".format)
        self.check_choice(case, programs, flags)

    def check_long_gpt2(self):
        """More than ten layers, whose names are not in the order of numbers; fewer positions
        than have an embedding; another d_ff; f16."""
        case = Gpt2({"batch": 2, "places": 11, "pos": 5, "d_model": 8, "heads": 4, "d_ff": 17,
                     "layers": 11, "vocab": 13}, samples=3, stored=numpy.float16)
        programs = self.compile(case)
        path = self.folder / "long.safetensors"
        save_file(case.tensors, path)
        flags = self.get_flags(path, "gpt2.map")
        self.check_logits(case, programs, flags)
        self.check_export(case, programs, flags, "transformer.{}".format)

    def check_bert(self):
        case = Bert({"batch": 5, "places": 9, "pos": 7, "kinds": 2, "d_model": 20, "heads": 4,
                     "d_ff": 80, "layers": 3, "vocab": 23})
        programs = self.compile(case)
        extras = hugging_face.get_bert_extras(case.sizes, case.tensors)
        plain = self.folder / "bert.safetensors"
        save_file({name.removeprefix("bert."): tensor
                   for name, tensor in case.tensors.items()}, plain)
        full = self.folder / "bert-full"
        self.save_parts(case.tensors | extras, full)
        for path in (plain, full):
            flags = self.get_flags(path, "bert.map")
            self.check_logits(case, programs, flags)
            self.check_export(case, programs, flags)

        def rename(name):
            return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta")

        old = self.folder / "bert-old.safetensors"
        save_file({rename(name): tensor for name, tensor in (case.tensors | extras).items()}, old)
        flags = self.get_flags(old, "bert_gamma_beta.map")
        self.check_logits(case, programs, flags)
        self.check_export(case, programs, flags, rename)

    @staticmethod
    def save_parts(tensors, folder):
        """As save_pretrained() does it where a model is too large for one file."""
        folder.mkdir()
        places = {}
        for number in range(2):
            name = f"model-{number + 1:05}-of-00002.safetensors"
            part = dict(list(tensors.items())[number::2])
            save_file(part, folder / name)
            places |= dict.fromkeys(part, name)
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def main():
    test = Test()
    test.check_gpt2()
    test.check_long_gpt2()
    test.check_bert()


main()
