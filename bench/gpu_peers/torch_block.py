"""The decoder blocks in PyTorch; see worker.py for arguments and answers."""

import math

import torch
import torch.nn.functional as F

import worker

LAYERS = 4


def make_parameters(sizes, device):
    """Names, shapes and deviations as in the .mesh file."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    model, heads, head, ff = (sizes[name] for name in ("d_model", "heads", "d_head", "d_ff"))
    shapes = {"attn/wq": (model, heads, head), "attn/wk": (model, heads, head),
              "attn/wv": (model, heads, head), "attn/wo": (heads, head, model),
              "ff/w1": (model, ff), "ff/w2": (ff, model)}
    parameters = {}
    for layer in range(1, LAYERS + 1):
        for name, shape in shapes.items():
            deviation = ff ** -0.5 if name == "ff/w2" else model ** -0.5
            parameters[f"b{layer}/{name}"] = deviation * torch.randn(shape, generator=generator)
        for name, size in {"ff/b1": ff, "ff/b2": model, "norm1/bias": model,
                           "norm2/bias": model}.items():
            parameters[f"b{layer}/{name}"] = torch.zeros(size)
        for name in ("norm1/gain", "norm2/gain"):
            parameters[f"b{layer}/{name}"] = torch.ones(model)
    return {name: value.to(device).requires_grad_() for name, value in parameters.items()}


def attention(p, x, hidden):
    q = torch.einsum("bpm,mhe->bhpe", x, p("attn/wq"))
    k = torch.einsum("bkm,mhe->bhke", x, p("attn/wk"))
    v = torch.einsum("bkm,mhe->bhke", x, p("attn/wv"))
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    weights = F.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    read = torch.matmul(weights, v)
    return torch.einsum("bhpe,hem->bpm", read, p("attn/wo"))


def norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p(f"{name}/gain"), p(f"{name}/bias"), 1e-5)


def block(p, x, hidden):
    x = x + attention(p, norm(p, "norm1", x), hidden)
    h = F.gelu(norm(p, "norm2", x) @ p("ff/w1") + p("ff/b1"))
    return x + h @ p("ff/w2") + p("ff/b2")


def get_loss(parameters, x, target, dtype):
    pos = x.shape[1]
    hidden = torch.ones(pos, pos, dtype=torch.bool, device=x.device).triu(1)
    x = x.to(dtype)
    for layer in range(1, LAYERS + 1):
        x = block(lambda name: parameters[f"b{layer}/{name}"].to(dtype), x, hidden)
    return (x - target.to(dtype)).float().square().mean()


def check(arguments, parameters, dtype):
    arrays = worker.read_arrays(arguments.check, [*parameters, "x", "target"])
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    x, target = tensors.pop("x"), tensors.pop("target")
    for tensor in tensors.values():
        tensor.requires_grad_()
    loss = get_loss(tensors, x, target, dtype)
    loss.backward()
    worker.write_arrays(arguments.check, {
        "loss": loss.detach().numpy(),
        **{f"gradient.{name}": tensor.grad.numpy() for name, tensor in tensors.items()}})


def main():
    arguments = worker.parse_arguments(__doc__)
    sizes = worker.get_sizes(arguments)
    dtype = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
    parameters = make_parameters(sizes, arguments.device)
    if arguments.check:
        return check(arguments, parameters, dtype)
    shape = (sizes["batch"], sizes["pos"], sizes["d_model"])
    x, target = (torch.randn(shape, device=arguments.device) for _ in range(2))
    optimizer = torch.optim.SGD(parameters.values(), lr=worker.LEARNING_RATE)
    compiled = torch.compile(get_loss)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(parameters, x, target, dtype)
        loss.backward()
        optimizer.step()
        return loss.item()

    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if arguments.device == "cuda":
        versions["gpu"] = torch.cuda.get_device_name()
    worker.serve(versions, step)


main()
