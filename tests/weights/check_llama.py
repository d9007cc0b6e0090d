"""A file of Hugging Face's Llama, by samples/weights/llama.map, in samples/llama/llama.mesh:
logits and loss are those of its definition in f64, on one device, on a mesh that divides no
size, and in two processes. What is exported is what was read, bit for bit.

Weights are random, sizes small and uneven. Prints the largest differences. Needs no package.

Arguments: meshc, the repository."""

import dataclasses
import json
import pathlib
import random
import struct
import sys

MESHC = sys.argv.pop(1)
ROOT = pathlib.Path(sys.argv.pop(1))
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", ".")]

# pylint: disable=wrong-import-position
import compiler
import llama
import npy

# How a file is run: the mesh, the layout if it is not the spec's, the number of processes.
PLACES = (
    ("data=1,model=1", None, 1),
    ("data=2,model=3", None, 1),
    ("data=2,model=3", None, 2),
    ("seq=2,model=2", "pos=seq,each=model,d_ff=model", 1),
)
# What rounding to f32 takes off a number, of it.
ROUNDING = 2.0 ** -24
BF16 = "BF16"
F32 = "F32"


def to_f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def to_bf16(number):
    """Towards zero: any number of 16 bits will do."""
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", number)[2:])[0]


def pack(elements, stored):
    data = struct.pack(f"<{len(elements)}f", *elements)
    if stored == F32:
        return data
    return b"".join(data[at + 2:at + 4] for at in range(0, len(data), 4))


def write_tensors(path, tensors, stored):
    entries, body = {}, b""
    for name, (shape, elements) in tensors.items():
        data = pack(elements, stored)
        entries[name] = {"dtype": stored, "shape": shape,
                         "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + body)


def read_tensors(path):
    """Each as its type, shape and bytes."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + size])
    entries.pop("__metadata__", None)
    return {name: (entry["dtype"], tuple(entry["shape"]),
                   data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in entries.items()}


def get_difference(found, right):
    return max(abs(a - b) for a, b in zip(found, right, strict=True))


class Case:
    """A model of some sizes, its inputs, and its logits in f64."""

    def __init__(self, config, samples, pos, stored):
        self.config, self.pos, self.stored = config, pos, stored
        self.tensors = llama.make_tensors(config, 1, to_bf16 if stored == BF16 else to_f32)
        draw = random.Random(2)
        self.token, self.label = ([[draw.randrange(config.vocab_size) for _ in range(pos)]
                                   for _ in range(samples)] for _ in range(2))
        self.right = self.compute(config, self.tensors)
        self.largest = max(map(abs, self.right))
        self.set_bound()
        width = config.vocab_size
        rows = [self.right[at:at + width] for at in range(0, len(self.right), width)]
        labels = [label for sample in self.label for label in sample]
        self.loss = sum(map(llama.get_cross_entropy, rows, labels)) / len(labels)

    def compute(self, config, tensors, **forms):
        net = llama.Pass(config, tensors, llama.Forms(**forms))
        return [logit for sample in self.token for row in net.get_logits(sample)
                for logit in row]

    def set_bound(self):
        """Weights that are off by a rounding take logits off by some error. Those in between
        are rounded, too, a dozen times in each layer: eight times as much is far less than
        what any mistake gives."""
        draw = random.Random(3)
        off = {name: (shape, [element * (1 + draw.choice((-1, 1)) * ROUNDING)
                              for element in elements])
               for name, (shape, elements) in self.tensors.items()}
        self.bound = 8 * get_difference(self.compute(self.config, off), self.right)
        assert 0 < self.bound < 1e-5 * self.largest, (self.bound, self.largest)

        others = [self.compute(self.config, self.tensors, interleaved=True)]
        if 1 < self.config.num_key_value_heads < self.config.num_attention_heads:
            others.append(self.compute(self.config, self.tensors, grouped=False))
        for name in ("rms_norm_eps", "rope_theta"):
            changed = dataclasses.replace(self.config, **{name: 1.1 * getattr(self.config, name)})
            others.append(self.compute(changed, self.tensors))
        for other in others:
            assert get_difference(other, self.right) > 4 * self.bound, self.bound

    def get_sizes(self):
        config = self.config
        sizes = {"batch": 2, "pos": self.pos, "d_model": config.hidden_size,
                 "heads": config.num_key_value_heads,
                 "each": config.num_attention_heads // config.num_key_value_heads,
                 "d_head": config.head_dim, "d_ff": config.intermediate_size,
                 "layers": config.num_hidden_layers, "vocab": config.vocab_size,
                 "epsilon": config.rms_norm_eps, "rotary_base": config.rope_theta}
        return [f"-D{name}={size}" for name, size in sizes.items()]


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)

    def check(self, case, places=PLACES):
        path = self.folder / "model.safetensors"
        buffers = {}
        if case.stored == BF16:
            # What files of some versions have besides.
            half = case.config.head_dim // 2
            buffers = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq":
                       ((half,), [case.config.rope_theta ** (-i / half) for i in range(half)])
                       for layer in range(case.config.num_hidden_layers)}
        write_tensors(path, case.tensors | buffers, case.stored)
        weights = ["--from", str(path), "--names", str(ROOT / "samples/weights/llama.map")]
        compiled = {}
        for mesh, layout, processes in places:
            if mesh not in compiled:
                compiled[mesh] = str(self.folder / f"program-{len(compiled)}")
                self.meshc.run("compile", "samples/llama/llama.mesh", "-o", compiled[mesh],
                               "--mesh", mesh, *([] if layout is None else ["--layout", layout]),
                               *case.get_sizes())
            self.check_logits(case, compiled[mesh], weights, processes, mesh)
        self.check_export(case, compiled["data=2,model=3"], weights)

    def check_logits(self, case, program, weights, processes, mesh):
        inputs = []
        for name, rows in (("token", case.token), ("next", case.label)):
            path = self.folder / f"{name}.npy"
            npy.write(path, [number for row in rows for number in row],
                      (len(rows), case.pos), form="i")
            inputs.append(f"{name}={path}")
        logits, loss = self.folder / "logits.npy", self.folder / "loss.npy"
        self.meshc.execute(program, "predict", *weights, "--batch", "batch", "--in", *inputs,
                           "--out", f"logits={logits}", f"loss={loss}",
                           "--processes", str(processes))
        difference = get_difference(npy.read(logits), case.right)
        assert difference <= case.bound, (mesh, processes, difference, case.bound)
        found, = npy.read(loss)
        # Off by no more than twice what a logit may be.
        assert abs(found - case.loss) <= 2 * case.bound, (mesh, found, case.loss)
        print(f"{case.config.num_hidden_layers} layers, {case.stored}, {mesh}, "
              f"processes {processes}: logits up to {case.largest:.2f} off by {difference:.1e}, "
              f"may be by {case.bound:.1e}; loss {found:.6f} instead of {case.loss:.6f}")

    def check_export(self, case, program, weights):
        exported = self.folder / "exported.safetensors"
        self.meshc.execute(program, "export", *weights, "--to", str(exported))
        expected = {name: (F32, shape, pack(elements, F32))
                    for name, (shape, elements) in case.tensors.items()}
        found = read_tensors(exported)
        assert found == expected, {name for name in found.keys() | expected
                                   if found.get(name) != expected.get(name)}
        exported.unlink()
        print(f"exported {len(found)} tensors, equal bit for bit")


def main():
    test = Test()
    test.check(Case(llama.Config(
        hidden_size=10, intermediate_size=14, num_attention_heads=6, num_key_value_heads=2,
        head_dim=4, num_hidden_layers=2, vocab_size=17, rms_norm_eps=1e-5, rope_theta=10000),
        samples=3, pos=7, stored=F32))
    # More than ten layers, whose names are not in the order of numbers; a key for each query.
    test.check(Case(llama.Config(
        hidden_size=9, intermediate_size=5, num_attention_heads=3, num_key_value_heads=3,
        head_dim=6, num_hidden_layers=11, vocab_size=13, rms_norm_eps=1e-6, rope_theta=500000),
        samples=2, pos=5, stored=BF16), PLACES[1:2])


main()
