"""GPT-2 and BERT in NumPy, from what Hugging Face's GPT2LMHeadModel and BertForMaskedLM say:
tensors of their names and shapes, and what they compute of them. Nothing here knows of specs
or maps."""

import math

import numpy

TANH, ERF = "tanh", "erf"


class Tensors(dict):
    """Random ones by name. Each matters: gains are not 1, biases not 0, and scores differ by
    some units. Embeddings are so small that an epsilon counts beside their variance."""

    def __init__(self, seed):
        super().__init__()
        self.numbers = numpy.random.default_rng(seed)

    def add(self, name, *shape, mean=0.0, spread=0.3):
        self[name] = self.numbers.normal(mean, spread, shape).astype(numpy.float32)

    def add_norm(self, name, size):
        self.add(f"{name}.weight", size, mean=1.0)
        self.add(f"{name}.bias", size)

    def add_linear(self, name, source, target):
        """torch.nn.Linear: [out, in]."""
        self.add(f"{name}.weight", target, source, spread=source ** -0.5)
        self.add(f"{name}.bias", target)

    def add_conv1d(self, name, source, target):
        """Conv1D of Hugging Face: [in, out]."""
        self.add(f"{name}.weight", source, target, spread=source ** -0.5)
        self.add(f"{name}.bias", target)


def make_gpt2(sizes, seed):
    """The tensors of a GPT2Model."""
    tensors, width = Tensors(seed), sizes["d_model"]
    tensors.add("wte.weight", sizes["vocab"], width, spread=0.02)
    tensors.add("wpe.weight", sizes["places"], width, spread=0.02)
    for layer in range(sizes["layers"]):
        tensors.add_norm(f"h.{layer}.ln_1", width)
        tensors.add_conv1d(f"h.{layer}.attn.c_attn", width, 3 * width)
        tensors.add_conv1d(f"h.{layer}.attn.c_proj", width, width)
        tensors.add_norm(f"h.{layer}.ln_2", width)
        tensors.add_conv1d(f"h.{layer}.mlp.c_fc", width, sizes["d_ff"])
        tensors.add_conv1d(f"h.{layer}.mlp.c_proj", sizes["d_ff"], width)
    tensors.add_norm("ln_f", width)
    return dict(tensors)


def get_gpt2_buffers(sizes):
    """What files of some versions have beside a GPT2Model's tensors."""
    buffers, places = {}, sizes["places"]
    for layer in range(sizes["layers"]):
        buffers[f"h.{layer}.attn.bias"] = numpy.tri(places, dtype=bool)[None, None]
        buffers[f"h.{layer}.attn.masked_bias"] = numpy.array(-1e4, numpy.float32)
    return buffers


def make_bert(sizes, seed):
    """The tensors of a BertForMaskedLM."""
    tensors, width = Tensors(seed), sizes["d_model"]
    for name, size in (("word", "vocab"), ("position", "places"), ("token_type", "kinds")):
        tensors.add(f"bert.embeddings.{name}_embeddings.weight", sizes[size], width, spread=0.02)
    tensors.add_norm("bert.embeddings.LayerNorm", width)
    for number in range(sizes["layers"]):
        layer = f"bert.encoder.layer.{number}"
        for name in ("query", "key", "value"):
            tensors.add_linear(f"{layer}.attention.self.{name}", width, width)
        tensors.add_linear(f"{layer}.attention.output.dense", width, width)
        tensors.add_norm(f"{layer}.attention.output.LayerNorm", width)
        tensors.add_linear(f"{layer}.intermediate.dense", width, sizes["d_ff"])
        tensors.add_linear(f"{layer}.output.dense", sizes["d_ff"], width)
        tensors.add_norm(f"{layer}.output.LayerNorm", width)
    tensors.add_linear("cls.predictions.transform.dense", width, width)
    tensors.add_norm("cls.predictions.transform.LayerNorm", width)
    tensors.add("cls.predictions.bias", sizes["vocab"])
    return dict(tensors)


def get_bert_extras(sizes, tensors):
    """What files have beside them: buffers, copies, and layers for other tasks."""
    extras, width = Tensors(5), sizes["d_model"]
    extras["bert.embeddings.position_ids"] = numpy.arange(sizes["places"])[None]
    extras.add_linear("bert.pooler.dense", width, width)
    extras.add_linear("cls.seq_relationship", width, 2)
    extras["cls.predictions.decoder.weight"] = \
        tensors["bert.embeddings.word_embeddings.weight"].copy()
    extras["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    return dict(extras)


def gelu(x, form):
    if form == ERF:
        erf = numpy.vectorize(math.erf, otypes=[x.dtype])
        return x * 0.5 * (1.0 + erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + numpy.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    weights = numpy.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def get_cross_entropy(logits, label):
    highest = logits.max(-1, keepdims=True)
    total = numpy.log(numpy.exp(logits - highest).sum(-1)) + highest[..., 0]
    return total - numpy.take_along_axis(logits, label[..., None], -1)[..., 0]


class Pass:
    """A forward pass with tensors by name, in floats of one type."""

    def __init__(self, tensors, heads, floats, form, epsilon):
        self.tensors = {name: tensor.astype(floats) for name, tensor in tensors.items()}
        self.heads, self.form, self.epsilon = heads, form, epsilon

    def get(self, name):
        return self.tensors[name]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt(variance + self.epsilon)
        return scaled * self.get(f"{name}.weight") + self.get(f"{name}.bias")

    def linear(self, x, name):
        return x @ self.get(f"{name}.weight").T + self.get(f"{name}.bias")

    def conv1d(self, x, name):
        return x @ self.get(f"{name}.weight") + self.get(f"{name}.bias")

    def attend(self, query, key, value, mask):
        """`mask` is added to scores."""
        def split(x):
            return x.reshape(*x.shape[:2], self.heads, -1).transpose(0, 2, 1, 3)

        query, key, value = split(query), split(key), split(value)
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])
        read = softmax(scores + mask.astype(scores.dtype)) @ value
        return read.transpose(0, 2, 1, 3).reshape(read.shape[0], read.shape[2], -1)


LOWEST = float(numpy.finfo(numpy.float32).min)


def get_gpt2_logits(tensors, heads, token, floats=numpy.float64, form=TANH, epsilon=1e-5):
    net = Pass(tensors, heads, floats, form, epsilon)
    count = token.shape[1]
    mask = numpy.where(numpy.tri(count, dtype=bool), 0.0, LOWEST)
    x = net.get("wte.weight")[token] + net.get("wpe.weight")[:count]
    for layer in range(sum(name.endswith(".ln_1.weight") for name in tensors)):
        merged = net.conv1d(net.norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn")
        read = net.attend(*numpy.split(merged, 3, axis=-1), mask)
        x = x + net.conv1d(read, f"h.{layer}.attn.c_proj")
        h = net.conv1d(net.norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")
        x = x + net.conv1d(gelu(h, net.form), f"h.{layer}.mlp.c_proj")
    return net.norm(x, "ln_f") @ net.get("wte.weight").T


def get_bert_logits(tensors, heads, token, kind, mask, floats=numpy.float64, form=ERF,
                    epsilon=1e-12):
    net = Pass(tensors, heads, floats, form, epsilon)
    added = ((1.0 - mask) * LOWEST)[:, None, None, :]
    words = net.get("bert.embeddings.word_embeddings.weight")
    x = words[token] + net.get("bert.embeddings.token_type_embeddings.weight")[kind]
    x = x + net.get("bert.embeddings.position_embeddings.weight")[:token.shape[1]]
    x = net.norm(x, "bert.embeddings.LayerNorm")
    for number in range(sum(name.endswith(".query.weight") for name in tensors)):
        layer = f"bert.encoder.layer.{number}"
        read = net.attend(*(net.linear(x, f"{layer}.attention.self.{name}")
                            for name in ("query", "key", "value")), added)
        x = net.norm(net.linear(read, f"{layer}.attention.output.dense") + x,
                     f"{layer}.attention.output.LayerNorm")
        h = gelu(net.linear(x, f"{layer}.intermediate.dense"), net.form)
        x = net.norm(net.linear(h, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
    h = gelu(net.linear(x, "cls.predictions.transform.dense"), net.form)
    h = net.norm(h, "cls.predictions.transform.LayerNorm")
    return h @ words.T + net.get("cls.predictions.bias")
