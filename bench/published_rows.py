"""Steps that others measured and published, by source, and what meshc is asked for each.

A row says what was measured, on how many devices, and how long a step took. Where a
throughput was published, the step follows from it. What meshc predicts of a row comes
from `bench/published.py`; nothing here is known to the machine model.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Step:
    """A plan of one training step."""
    spec: str
    machine: str
    precision: str
    mesh: tuple     # of (axis, size)
    sizes: tuple    # of (dim, size)


@dataclasses.dataclass(frozen=True)
class Row:
    """What is published. The published program differs from the plan in what the flags
    say, which the prediction follows:

    repeats_layers: it computes the layers' forward pass twice, to keep less.
    sums_at_end: it sums all gradients in 16 bits and in one piece behind the backward
        pass, where meshc sums them in f32 and meanwhile.
    """
    sizes: str
    devices: int
    published_ms: float
    step: Step
    repeats_layers: bool = False
    sums_at_end: bool = False


@dataclasses.dataclass(frozen=True)
class ExtraRow:
    """By how much a step on several servers is longer than on one: of gradients that are
    summed behind the backward pass, the all_reduce of the one less that of the other."""
    sizes: str
    devices: int
    published_ms: float
    step: Step         # whose gradients are summed
    fewer: int         # devices of the shorter step
    goal: tuple        # (ms, and how far from it)


@dataclasses.dataclass(frozen=True)
class Source:
    name: str
    where: str
    rows: list
    note: str = ""


#===-- BERT ---------------------------------------------------------------===#

BERT_WHERE = ("NVIDIA DeepLearningExamples, PyTorch/LanguageModeling/BERT, README of 2019, "
              "pytorch 19.07")
ONE_SERVER = [
    # server, positions, sequences per GPU, {GPUs: sequences/s}
    ("DGX-1 16G", 128, 16, {1: 125.44, 4: 458.24, 8: 919.04}),
    ("DGX-1 16G", 512, 4, {1: 26.64, 4: 98.24, 8: 194.56}),
    ("DGX-1 32G", 128, 64, {1: 171.52, 4: 655.36, 8: 1305.6}),
    ("DGX-1 32G", 512, 8, {1: 30.08, 4: 116.8, 8: 231.68}),
    ("DGX-2", 128, 64, {1: 181.76, 4: 704, 8: 1402.88}),
    ("DGX-2", 512, 8, {1: 32.32, 4: 124.16, 8: 247.04}),
]
SEVERAL_SERVERS = [
    # positions, sequences per GPU, {servers of eight GPUs: sequences/s}
    (128, 16, {1: 874.24, 4: 3089.76, 16: 12144.64}),
    (512, 4, {1: 195.93, 4: 700.16, 16: 2746.368}),
]
# By servers: milliseconds that a step is longer, and how far a prediction may be off.
EXTRA_GOALS = {4: (19.4, 2), 16: (22.6, 3)}


def make_bert(devices, positions, each):
    return Step("bench/published/bert.mesh", "v100", "fp16", (("data", devices),),
                (("batch", devices * each), ("pos", positions)))


def make_bert_row(server, positions, each, devices, rate):
    return Row(f"{server}, {positions} positions, {each} sequences per GPU", devices,
               1e3 * devices * each / rate, make_bert(devices, positions, each),
               sums_at_end=devices > 1)


def list_one_server():
    return [make_bert_row(server, positions, each, devices, rate)
            for server, positions, each, rates in ONE_SERVER
            for devices, rate in rates.items()]


def list_several_servers():
    return [make_bert_row("DGX-1 16G", positions, each, 8 * servers, rate)
            for positions, each, rates in SEVERAL_SERVERS
            for servers, rate in rates.items()]


def list_extras():
    rows = []
    for positions, each, rates in SEVERAL_SERVERS:
        shorter, *longer = (make_bert_row("DGX-1 16G", positions, each, 8 * servers, rate)
                            for servers, rate in rates.items())
        rows += [ExtraRow(row.sizes, row.devices, row.published_ms - shorter.published_ms,
                          row.step, shorter.devices, EXTRA_GOALS[row.devices // 8])
                 for row in longer]
    return rows


#===-- GPTs of Megatron-LM ------------------------------------------------===#

VOCAB = 51200


@dataclasses.dataclass(frozen=True)
class Gpt:
    billions: float     # of parameters
    heads: int
    width: int
    layers: int
    positions: int

    def count_flops(self, batch):
        """Of an iteration that computes the layers' forward pass twice: Narayanan et
        al., SC 2021, equation 3."""
        return (96 * batch * self.positions * self.layers * self.width ** 2
                * (1 + self.positions / (6 * self.width)
                   + VOCAB / (16 * self.layers * self.width)))


def make_gpt_row(gpt, machine, precision, data, model, batch, published_ms):
    step = Step("bench/gpt.mesh", machine, precision, (("data", data), ("model", model)),
                (("heads", gpt.heads), ("d_model", gpt.width), ("layers", gpt.layers),
                 ("pos", gpt.positions), ("vocab", VOCAB), ("batch", batch)))
    return Row(f"{gpt.billions} 10^9 parameters, model = {model}", data * model,
               published_ms, step, repeats_layers=True)


def list_megatron_2019():
    """Of 39 Tflop/s on one GPU, and 77 % of that on each of eight. Operations count as in
    2020, where 62.4 Tflop/s in 1288 ms are those of two forward passes."""
    small, large = Gpt(1.2, 16, 1536, 40, 1024), Gpt(8.3, 32, 3072, 72, 1024)
    batch = 8
    return [make_gpt_row(gpt, "v100", "fp16", 1, model, batch,
                         gpt.count_flops(batch) / (model * rate) * 1e3)
            for gpt, model, rate in ((small, 1, 39e12), (large, 8, 0.77 * 39e12))]


def list_megatron_2020():
    return [make_gpt_row(Gpt(*sizes, 1024), "v100", "fp16", 1, model, 8, published_ms)
            for sizes, model, published_ms in (
                ((1.2, 15, 1920, 24), 1, 1288), ((2.0, 18, 2304, 30), 2, 1242),
                ((4.2, 24, 3072, 36), 4, 1357), ((8.7, 32, 4096, 42), 8, 1508))]


def list_megatron_2021():
    """Of Tflop/s on each GPU."""
    rows = []
    for sizes, model, devices, batch, rate in (
            ((1.7, 24, 2304, 24), 1, 32, 512, 137e12),
            ((3.6, 32, 3072, 30), 2, 64, 512, 138e12),
            ((7.5, 32, 4096, 36), 4, 128, 512, 142e12),
            ((18.4, 48, 6144, 40), 8, 256, 1024, 135e12)):
        gpt = Gpt(*sizes, 2048)
        rows.append(make_gpt_row(gpt, "a100", "bf16", devices // model, model, batch,
                                 gpt.count_flops(batch) / (devices * rate) * 1e3))
    return rows


#===-- ResNet-50 ----------------------------------------------------------===#

RESNETS = [
    # server, machine, precision, images per GPU, {GPUs: images/s}
    ("DGX-1 16G", "v100", "fp16", 192, {1: 1376, 2: 2768, 4: 5357, 8: 10723}),
    ("DGX-1 16G", "v100", "f32", 96, {1: 384, 2: 763, 4: 1513, 8: 3005}),
    ("DGX-2", "v100", "fp16", 256, {1: 1492, 2: 2935, 4: 5726, 8: 11368}),
    ("DGX-2", "v100", "f32", 128, {1: 417, 2: 821, 4: 1623, 8: 3223}),
    ("DGX A100", "a100", "fp16", 512, {1: 3410.52, 4: 13442.66, 8: 26673.72}),
]


def list_resnets():
    return [Row(f"{server}, {precision}, {each} images per GPU", devices,
                1e3 * devices * each / rate,
                Step("bench/published/resnet50.mesh", machine, precision,
                     (("data", devices),), (("shard", devices), ("image", each))))
            for server, machine, precision, each, rates in RESNETS
            for devices, rate in rates.items()]


#===-- All ----------------------------------------------------------------===#

SOURCES = [
    Source("BERT-large, one server", BERT_WHERE, list_one_server(),
           "Without dropout, and with Adam for LAMB, which the language does not have."),
    Source("BERT-large, servers of eight over InfiniBand", BERT_WHERE, list_several_servers(),
           "As above. One server is published twice, with steps that differ by 5 %."),
    Source("BERT-large, extra time over one server", BERT_WHERE, list_extras(),
           "The all_reduces alone, of 16-bit gradients in one piece."),
    Source("Megatron-LM 2019", "Shoeybi et al., 2019, section 5.1", list_megatron_2019(),
           "Measured in a DGX-2H, whose V100s are clocked higher than the machine's; the "
           "iterations follow from published Tflop/s. What was read off a figure is left "
           "out."),
    Source("Megatron-LM 2020", "Megatron-LM v1.0, May 2020, table 1", list_megatron_2020(),
           "In a DGX-2H, as above. Widths and layers are those that give the published "
           "parameters and, with 62.4 Tflop/s, the published time of the first row."),
    Source("Megatron-LM 2021", "Narayanan et al., SC 2021, table 1, without a pipeline",
           list_megatron_2021(),
           "They divide the batch into micro-batches, which is not modelled: products are "
           "predicted of the whole batch, and whether the step fits is not asked."),
    Source("ResNet-50", "NVIDIA DeepLearningExamples, MxNet/Classification/RN50v1.5, "
           "README, mxnet 20.12 and 22.10", list_resnets(),
           "On GPUs meshc has no library for convolutions: it stores what windows see and "
           "multiplies that, which is the step that is predicted."),
]

LEFT_OUT = [
    ("BERT-large on 1 to 64 DGX-2H; 16 GPUs of a DGX-2, of BERT-large and of ResNet-50; "
     "Megatron-LM 2019 on 64 to 512 GPUs",
     "servers of sixteen: the machines have hosts of eight"),
    ("BERT-large in hours; PyTorch on 1 to 32 DGX A100 80G; TensorFlow; Paddle",
     "gradients are accumulated over several passes, which is not modelled; TF32 is no "
     "precision of the language"),
    ("Megatron-LM 2021 from 39.1 10^9 parameters on, MT-NLG, MegaScale, Llama 3, "
     "Megatron-core on H100", "pipelines, which the compiler does not have"),
    ("ZeRO-3 of Megatron-LM 2021",
     "weights are gathered again for the backward pass, where meshc keeps them"),
    ("Transformer-XL",
     "adaptive softmax: how many words fall into a cluster depends on the data"),
    ("ResNet-50 in TF32", "no precision of the language"),
    ("MXNet on p2.16xlarge, Horovod, TensorFlow's CNN benchmarks, Goyal, Akiba, Tencent, "
     "Sony, Baidu SVAIL, SparkNet", "K80, P40 and P100: no such machines"),
]
