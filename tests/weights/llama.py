"""Llama as Hugging Face's LlamaForCausalLM defines it, in f64 and in plain Python: tensors of
its names and shapes, and what it computes of them. Nothing here knows of specs or maps."""

import dataclasses
import math
import random


@dataclasses.dataclass
class Config:
    """Sizes by the names of config.json."""
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_hidden_layers: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float


class Forms:
    """What may be understood otherwise. Files are right for the first of each alone."""

    def __init__(self, interleaved=False, grouped=True):
        # Which elements of a head are turned together: i and i + half, or 2 i and 2 i + 1.
        self.interleaved = interleaved
        # Whether queries that share a key are neighbours, or as many apart as there are keys.
        self.grouped = grouped


def make_shapes(config):
    """The shape of each tensor. Linear layers are [out, in]."""
    width, head = config.hidden_size, config.head_dim
    queries, keys = config.num_attention_heads * head, config.num_key_value_heads * head
    shapes = {"model.embed_tokens.weight": (config.vocab_size, width)}
    for number in range(config.num_hidden_layers):
        layer = f"model.layers.{number}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (width,),
            f"{layer}.self_attn.q_proj.weight": (queries, width),
            f"{layer}.self_attn.k_proj.weight": (keys, width),
            f"{layer}.self_attn.v_proj.weight": (keys, width),
            f"{layer}.self_attn.o_proj.weight": (width, queries),
            f"{layer}.post_attention_layernorm.weight": (width,),
            f"{layer}.mlp.gate_proj.weight": (config.intermediate_size, width),
            f"{layer}.mlp.up_proj.weight": (config.intermediate_size, width),
            f"{layer}.mlp.down_proj.weight": (width, config.intermediate_size),
        }
    return shapes | {"model.norm.weight": (width,),
                     "lm_head.weight": (config.vocab_size, width)}


def make_tensors(config, seed, rounded):
    """Random ones, each (shape, elements). Gains are not 1, and embeddings are so
    small that the epsilon counts beside their squares."""
    draw, tensors = random.Random(seed), {}
    for name, shape in make_shapes(config).items():
        if len(shape) == 1:
            mean, spread = 1.0, 0.3
        else:
            mean, spread = 0.0, 0.02 if "embed" in name else shape[1] ** -0.5
        tensors[name] = (shape, [rounded(draw.gauss(mean, spread))
                                 for _ in range(math.prod(shape))])
    return tensors


def multiply(weight, x):
    return [math.fsum(a * b for a, b in zip(row, x)) for row in weight]


class Pass:
    """A forward pass of one sample."""

    def __init__(self, config, tensors, forms):
        self.config, self.forms, self.values = config, forms, {}
        for name, (shape, elements) in tensors.items():
            step = shape[-1]
            self.values[name] = elements if len(shape) == 1 else \
                [elements[at:at + step] for at in range(0, len(elements), step)]

    def norm(self, x, name):
        square = math.fsum(element * element for element in x) / len(x)
        scale = (square + self.config.rms_norm_eps) ** -0.5
        return [gain * element * scale for gain, element in zip(self.values[name], x)]

    def split(self, x):
        step = self.config.head_dim
        return [x[at:at + step] for at in range(0, len(x), step)]

    def turn(self, head, position):
        half, turned = len(head) // 2, list(head)
        for number in range(half):
            angle = position * self.config.rope_theta ** (-2 * number / len(head))
            first, second = (2 * number, 2 * number + 1) if self.forms.interleaved \
                else (number, number + half)
            turned[first] = head[first] * math.cos(angle) - head[second] * math.sin(angle)
            turned[second] = head[second] * math.cos(angle) + head[first] * math.sin(angle)
        return turned

    def attend(self, rows, layer):
        def project(name, turns):
            return [[self.turn(head, position) if turns else head for head in
                     self.split(multiply(self.values[f"{layer}.self_attn.{name}.weight"], x))]
                    for position, x in enumerate(rows)]

        queries, keys, values = project("q_proj", True), project("k_proj", True), \
            project("v_proj", False)
        shared = self.config.num_attention_heads // self.config.num_key_value_heads
        for position, heads in enumerate(queries):
            read = []
            for number, query in enumerate(heads):
                key = number // shared if self.forms.grouped else \
                    number % self.config.num_key_value_heads
                scores = [multiply([keys[other][key]], query)[0] * len(query) ** -0.5
                          for other in range(position + 1)]
                weights = [math.exp(score - max(scores)) for score in scores]
                read += [math.fsum(weight * values[other][key][element]
                                   for other, weight in enumerate(weights)) / math.fsum(weights)
                         for element in range(len(query))]
            yield multiply(self.values[f"{layer}.self_attn.o_proj.weight"], read)

    def feed(self, x, layer):
        gate, up = (multiply(self.values[f"{layer}.mlp.{name}.weight"], x)
                    for name in ("gate_proj", "up_proj"))
        return multiply(self.values[f"{layer}.mlp.down_proj.weight"],
                        [a / (1 + math.exp(-a)) * b for a, b in zip(gate, up)])

    def get_logits(self, tokens):
        rows = [self.values["model.embed_tokens.weight"][token] for token in tokens]
        for number in range(self.config.num_hidden_layers):
            layer = f"model.layers.{number}"
            normed = [self.norm(x, f"{layer}.input_layernorm.weight") for x in rows]
            rows = [[a + b for a, b in zip(x, y)]
                    for x, y in zip(rows, self.attend(normed, layer))]
            fed = [self.feed(self.norm(x, f"{layer}.post_attention_layernorm.weight"), layer)
                   for x in rows]
            rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, fed)]
        return [multiply(self.values["lm_head.weight"], self.norm(x, "model.norm.weight"))
                for x in rows]


def get_cross_entropy(logits, label):
    highest = max(logits)
    return math.log(math.fsum(math.exp(logit - highest) for logit in logits)) + highest \
        - logits[label]
