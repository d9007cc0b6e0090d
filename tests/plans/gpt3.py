"""GPT-3 on a mesh, its layers as a loop or as calls with parameters of their own."""

import pathlib
import re

SPEC = "bench/gpt.mesh"
LAYERS = 96
SIZES = {"heads": 96, "d_model": 12288, "batch": 1536}


def get_options(layers=LAYERS, data=128, model=8):
    """What is said of it on the command line, of data * model devices."""
    return ["--machine", "a100", "--precision", "bf16", "--mesh", f"data={data},model={model}",
            *[f"-D{name}={size}" for name, size in dict(SIZES, layers=layers).items()]]


def write_out(text, layers=LAYERS):
    """The layers as calls instead of a loop."""
    calls = "\n".join(f"  let h = block(h) as b{layer}" for layer in range(1, layers + 1))
    written, count = re.subn(r"^  for layer in layers \{ h = block\(h\) \}$", calls, text,
                             flags=re.MULTILINE)
    assert count == 1, f"{SPEC} has no loop over the layers"
    return written


def get_forms(root, layers=LAYERS):
    """The specs by name."""
    text = (pathlib.Path(root) / SPEC).read_text(encoding="utf-8")
    return {"loop": text, "calls": write_out(text, layers)}
