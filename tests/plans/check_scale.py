"""Plans of large tensors and of long programs, within limits on memory, on the stack
and, far above what they take, on time.

Nothing that a plan needs grows with the bytes of a tensor, nothing in the compiler calls
itself once for each operation (the stack has 1 MiB), and time grows about as operations do.

Arguments: meshc, the repository. With `--most`, programs of almost as many operations as
a spec may have (Builder::maxOperations) in 60 s of processor time and 2 GB, one after the
other: minutes, so on demand only.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import gpt3

GIB = 1 << 30
STACK = 1 << 20
SECONDS = 550
MOST_SECONDS, MOST_MEMORY = 60, 2 * 10**9
# Of processor time, where a program is four times as long: between the 4 of what is
# proportional to its length and the 16 of what is quadratic.
MAX_GROWTH = 8
# The same of twice as many layers, between 2 and 4, and of 16 times as many devices.
MAX_LAYER_GROWTH, MAX_DEVICE_GROWTH = 2.7, 1.3

HEAD = "dim row = 64\ndim col = 128\n"


def model(lines, inputs="x: f32[row, col]", tail=""):
    return HEAD + f"model m({inputs}) {{\n" + "\n".join(lines) + "\n}\n" + tail


def chain(count):
    """Elementwise operations one after the other."""
    links = ["tanh(y)", "y + x", "y * 1.01", "abs(y)"]
    return model(["let y = x"] + [f"let y = {links[i % 4]}" for i in range(count)]
                 + ["output o = sum(y)"])


def trained_chain(count):
    links = ["tanh(y)", "y + x", "y * 1.01", "logistic(y)"]
    return model(["param w: f32[row, col] = ones", "let y = x * w"]
                 + [f"let y = {links[i % 4]}" for i in range(count)] + ["output o = mean(y)"],
                 tail="train { minimize o optimizer sgd(lr = 0.1) steps 3 }\n")


def long_sum(count):
    """Terms of one expression on one line."""
    return model(["let s = " + " + ".join(f"x * {i}.25" for i in range(count)),
                  "output o = sum(s)"])


def fan_out(count):
    """Many readers of one tensor, whose results stay."""
    return model([f"output o{i} = x * {i}.5" for i in range(count)])


def layers(count):
    """Layers with parameters of their own, which have initial values, gradients and
    updates: about ten operations for each of `count` / 10 layers, three statements of which are
    the user's."""
    lines = ["let y = x"]
    for i in range(count // 10):
        lines += [f"param w{i}: f32[col, col2] = normal(stddev = 0.02)",
                  f"param b{i}: f32[col2] = zeros",
                  f"let y = relu(rename(einsum(y, w{i} -> row, col2) + b{i}, col2 -> col))"]
    return "dim col2 = 128\n" + model(lines + ["output o = mean(y)"],
                                      tail="train { minimize o optimizer sgd(lr = 0.1) steps 3 }\n")


def squares(count):
    """Paths that meet again, twice as many with each operation, in a row too long to
    be kept between the stages of a softmax."""
    lines = ["let y = x"] + ["let y = tanh(y * y)"] * count + ["output o = softmax(y, over = long)"]
    return "dim long = 40000\n" + model(lines, inputs="x: f32[row, long]")


def recurrence(count):
    """Two layers of gated recurrent units, trained: about thirty operations for each of
    `count` / 30 steps, and slices and stacks of all steps."""
    return f"""
dim time = {count // 30}
dim batch = 5
dim wide = 7
dim gate = 3
fn gru(x) {{
  param w, u: f32[wide', gate, wide] = normal(stddev = size(wide) ^ -0.5)
  let a = einsum(rename(x, wide -> wide'), w, over = wide')
  let h = broadcast(f32(0), batch, wide)
  let y = x
  for t in time {{
    let s = a[time = t]
    let g = einsum(rename(h, wide -> wide'), u, over = wide')
    let r = logistic(s[gate = 0] + g[gate = 0])
    let z = logistic(s[gate = 1] + g[gate = 1])
    let n = tanh(s[gate = 2] + r * g[gate = 2])
    h = (1 - z) * n + z * h
    y[time = t] = h
  }}
  return y
}}
model m(x: f32[time, batch, wide]) {{
  output loss = mean(gru(gru(x) as one) as two)
}}
train {{ minimize loss optimizer sgd(lr = 0.1) steps 3 }}
"""


LONG = {
    "chain": (chain(16000), 1.5 * GIB),
    "trained chain": (trained_chain(3000), 1.5 * GIB),
    "long sum": (long_sum(8000), 1.5 * GIB),
    "fan-out": (fan_out(4000), 1.5 * GIB),
    "squares": (squares(40), 1 * GIB),
}


GROWTH = {"chain": chain, "trained chain": trained_chain, "fan-out": fan_out,
          "layers": layers, "recurrence": recurrence}
SHORTER, LONGER = 2000, 8000

# A product with a number is two operations. A trained chain has about three for each
# statement, with its gradient.
MOST = {
    "chain": chain(79000),
    "trained chain": trained_chain(33000),
    "fan-out": fan_out(49000),
    "layers": layers(60000),
}


def run(meshc, arguments, memory, stack=STACK, processor_seconds=SECONDS):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))

    with tempfile.TemporaryDirectory(prefix="meshc-") as cache:
        done = subprocess.run([meshc, *arguments], preexec_fn=limit, timeout=SECONDS,
                              env=dict(os.environ, MESHC_CACHE_DIR=cache),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        sys.exit(f"meshc {' '.join(arguments)}: exit code {done.returncode}\n"
                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def check_large(meshc, root):
    """Tensors of the sizes of GPT-3, 12 of its 96 blocks: as a list the pieces of their
    collectives took more than 3 GiB for 2 blocks."""
    spec = root / "samples" / "transformer_block.mesh"
    sizes = {"layers": 12, "batch": 512, "pos": 2048, "d_model": 12288, "heads": 96,
             "d_head": 128, "d_ff": 49152}
    plan = json.loads(run(meshc, ["plan", str(spec), "--target", "cuda", "--emit", "json",
                                  "--mesh", "data=8,model=8",
                                  *[f"-D{name}={size}" for name, size in sizes.items()]],
                          memory=2 * GIB, stack=8 << 20))
    # Of each block four projections of attention and two of the other layer.
    parameters = 12 * (4 * 12288**2 + 2 * 12288 * 49152)
    held = plan["memory"]["params"]
    assert parameters * 4 / 8 <= held <= parameters * 4 / 8 * 1.01, (parameters, held)


GPT3 = {"layers": 96, "batch": 1536, "pos": 2048, "d_model": 12288, "heads": 96,
        "d_head": 128, "d_ff": 49152}


def check_gpt3(meshc, root):
    """The 96 blocks of GPT-3 on 1,024 devices are read as one block is."""
    spec = root / "samples" / "transformer_block.mesh"
    lines = {}
    for layers in (2, GPT3["layers"]):
        sizes = dict(GPT3, layers=layers)
        text = run(meshc, ["plan", str(spec), "--machine", "a100", "--mesh",
                           "data=128,model=8",
                           *[f"-D{name}={size}" for name, size in sizes.items()]],
                   memory=GIB, stack=8 << 20)
        lines[layers] = len(text.splitlines())
    print(f"GPT-3: {lines[GPT3['layers']]} lines, {lines[2]} of two blocks")
    assert lines[GPT3["layers"]] < 150, lines
    assert lines[GPT3["layers"]] - lines[2] < 12, lines


def check_gpt(meshc, root):
    """So is the whole model: embeddings, logits, loss, bf16 and Adam."""
    text = run(meshc, ["plan", str(root / gpt3.SPEC), *gpt3.get_options()],
               memory=1.5 * GIB, stack=8 << 20)
    # What calls and loops take is a table of its own, as long as there are kinds of them.
    text, sums = text.split("\ncalls and loops, ")
    lines, sums = text.splitlines(), sums.splitlines()
    print(f"gpt.mesh: {len(lines)} lines, and {len(sums)} of calls and loops")
    assert len(lines) < 150, len(lines)
    assert len(sums) <= 10, sums
    # What is told once is all there.
    for name in ("words", "adam/m, adam/v", "10 parameters as bf16", "layer/1 to layer/95",
                 "layer/94 to layer/0", "logits", "gradient of words"):
        assert any(line.startswith(f"  {name} ") for line in lines), name
    # Sums of four lines less than where q, k and v each send a gradient.
    sums = sum("all_reduce" in line or "reduce_scatter" in line for line in lines)
    assert sums >= 19, sums


def check_gpt3_time(meshc, root, folder):
    """The time of a plan is in proportion to its layers, as a loop and as calls, and what
    is alike on many devices is planned once."""
    runs = {}
    for layers in (48, 96):
        for form, text in gpt3.get_forms(root, layers).items():
            path = folder / f"gpt3-{form}-{layers}.mesh"
            path.write_text(text, encoding="utf-8")
            runs[form, layers, 1024] = [str(path), *gpt3.get_options(layers)]
    runs["loop", 96, 64] = [runs["loop", 96, 1024][0], *gpt3.get_options(96, data=8)]
    # In turns, each compared with those of its own turn: other processes slow some turns
    # down by half, not one form of plan more than another.
    turns = []

    def find_growing():
        pairs = {((form, 96, 1024), (form, 48, 1024)): MAX_LAYER_GROWTH
                 for form in ("loop", "calls")}
        pairs[("loop", 96, 1024), ("loop", 96, 64)] = MAX_DEVICE_GROWTH
        # The median of five turns is below a limit as soon as three of them are.
        return {pair: turns for pair, limit in pairs.items()
                if sum(turn[pair[0]] / turn[pair[1]] < limit for turn in turns) < 3}

    while find_growing() and len(turns) < 5:
        turns.append({run_of: measure(meshc, arguments) for run_of, arguments in runs.items()})
    for (form, layers, devices) in runs:
        taken = statistics.median(turn[form, layers, devices] for turn in turns)
        print(f"GPT-3, {layers} layers as {form} on {devices} devices: {taken:.2f} s")
    assert not find_growing(), find_growing()


def check_stored(meshc, root, folder):
    """A stored plan of many values is read in a time in proportion to them."""
    spec = str(root / "samples" / "mlp.mesh")
    plan = json.loads(run(meshc, ["plan", spec, "--emit", "json"], memory=GIB))
    first, seconds = plan["tensors"][0], {}
    for count in (20_000, 80_000):
        plan["tensors"] = [dict(first, id=f"t{i}", name=f"v{i}") for i in range(count)]
        path = folder / f"stored-{count}.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            run(meshc, ["plan", "--compare", str(path), str(path)], 2 * GIB,
                processor_seconds=MOST_SECONDS)
            taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            seconds[count] = min(taken, seconds.get(count, taken))
    print(f"stored plans: {seconds[20_000]:.2f} s, {seconds[80_000]:.2f} s")
    assert seconds[80_000] < MAX_GROWTH * seconds[20_000], seconds


def check_long(meshc, folder):
    for name, (spec, memory) in LONG.items():
        path = folder / f"{name.replace(' ', '-')}.mesh"
        path.write_text(spec, encoding="utf-8")
        run(meshc, ["check", str(path)], memory)
        run(meshc, ["plan", str(path)], memory)
        run(meshc, ["plan", str(path), "--target", "cuda"], memory)


def measure(meshc, arguments):
    """Processor time of a plan, in seconds, within the limits of the longest programs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(meshc, ["plan", *arguments], MOST_MEMORY, processor_seconds=MOST_SECONDS)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def check_growth(meshc, folder):
    for name, make in GROWTH.items():
        seconds, growth = {}, MAX_GROWTH
        # The faster ones: other processes slow some down. The longer one, which would
        # only lower the growth, again where it is too large.
        for counts in ((SHORTER, SHORTER, LONGER), (LONGER,)):
            if growth < MAX_GROWTH:
                break
            for count in counts:
                path = folder / f"growth-{count}.mesh"
                path.write_text(make(count), encoding="utf-8")
                taken = measure(meshc, [str(path), "--target", "cuda"])
                seconds[count] = min(taken, seconds.get(count, taken))
            growth = seconds[LONGER] / seconds[SHORTER]
        print(f"{name}: {seconds[SHORTER]:.2f} s, {seconds[LONGER]:.2f} s, {growth:.1f} times")
        assert growth < MAX_GROWTH, (name, seconds)


def check_most(meshc, folder):
    for name, spec in MOST.items():
        path = folder / f"most-{name.replace(' ', '-')}.mesh"
        path.write_text(spec, encoding="utf-8")
        for target in ("cpu", "cuda"):
            taken = measure(meshc, [str(path), "--target", target])
            print(f"{name}, {target}: {taken:.1f} s", flush=True)


def main():
    meshc, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder = pathlib.Path(name)
        if "--most" in sys.argv[3:]:
            check_most(meshc, folder)
            return
        check_large(meshc, root)
        check_gpt3(meshc, root)
        check_gpt(meshc, root)
        check_gpt3_time(meshc, root, folder)
        check_stored(meshc, root, folder)
        check_long(meshc, folder)
        check_growth(meshc, folder)


main()
