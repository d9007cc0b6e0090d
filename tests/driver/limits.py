"""Specs that are large where people do not write them large: each compiles or is a
diagnostic, within 2 s of processor time and 512 MB. `limits.py MESHC FOLDER`."""

import os
import pathlib
import shutil
import sys

SECONDS, MEMORY = 2, 512 << 20
# What instrumented code takes in place of 1 s or byte, and more.
SANITIZERS, SLACK = (b"__asan_init", b"__tsan_init"), 20

COUNT = 20_000
DIMS = "".join(f"dim d{i} = {2 + i % 5}\n" for i in range(COUNT))
OWN = "dim n = 3\nfn f(x) {\n" + "".join(
    f"  dim d{i} = {2 + i % 5}\n" for i in range(COUNT)) + "  return x\n}\n"
# A name has 255 characters at most.
PRIMES = 254


def model(*lines):
    return "dim n = 3\nmodel m(x: f32[n]) {\n" + "\n".join(lines) + "\n}\n"


def prime(depth):
    return "n" + "'" * depth


# As many dims that are all used are a program of as many operations, in which each kernel
# is looked at: 3.4 s on the machine that this was written on.
USED, USED_SECONDS = 10_000, 5
SUMS = [f"  s = s + sum(f32(iota(d{i})))" for i in range(USED)]


def own_sums():
    """A function with as many dims, all of which it uses."""
    lines = (f"  dim d{i} = {2 + i % 5}\n{line}\n" for i, line in enumerate(SUMS))
    return "dim n = 3\nfn f(x) {\n  let s = sum(x)\n" + "".join(lines) + "  return s\n}\n"


# What each is, and what is said of it; nothing of what compiles.
SPECS = {
    "dims": (DIMS + model("  output o = sum(x)"), ""),
    "dims-of-a-function": (OWN + "model m(x: f32[n]) { output o = f(x) }\n", ""),
    "dims-that-are-used": (
        DIMS + model("  let s = sum(x)", *SUMS, "  output o = s"), ""),
    "dims-of-a-function-that-are-used": (
        own_sums() + "model m(x: f32[n]) { output o = f(x) }\n", ""),
    "dims-of-a-list": (
        DIMS + "fn f(x, over: dims) { return x * sum(f32(iota(d1))) }\n" +
        model("  output o = f(x, (" + ", ".join(f"d{i}" for i in range(COUNT)) + "))"), ""),
    "calls": ("fn f(x) { return exp(x) }\n" +
              model(*("  x = f(x)" for _ in range(USED)), "  output o = x"), ""),
    "dims-of-a-tensor": (
        DIMS + "model m(x: f32[" + ", ".join(f"d{i}" for i in range(COUNT)) +
        "]) { output o = sum(x) }\n", "MC0407"),
    "dims-with-rules": (
        DIMS + "mesh a = 2\nlayout {\n" +
        "".join(f"  d{i} -> a\n" for i in range(COUNT)) + "}\n" +
        model("  output o = sum(x)"), "MC0604"),
    "prime": (model(f"  output o = x * sum(f32(iota({prime(PRIMES)})))"), ""),
    "prime-too-deep": (
        model(f"  output o = x * sum(f32(iota({prime(PRIMES + 1)})))"), "MC0108"),
    "primes-one-after-the-other": (
        model(*(f"  x = rename(x, {prime(i)} -> {prime(i + 1)})" for i in range(PRIMES)),
              "  output o = sum(x)"), ""),
    "primes-of-a-tensor": (
        model("  let y = broadcast(x, " + ", ".join(map(prime, range(1, PRIMES))) + ")",
              "  output o = sum(y)"), "MC0407"),
    "recursion": ("fn f(x) { return g(x) }\nfn g(x) { return f(x) }\n" +
                  model("  output o = f(x)"), "MC0310"),
    "recursion-of-a-default": ("fn f(x, y = f(1)) { return x }\n" +
                               model("  output o = f(x)"), "MC0310"),
    "branches": (model(*("  if true { x = x + 1 } else { x = nothing }"
                         for _ in range(1000)), "  output o = x"), ""),
    "results": ("fn f(x) { return " + ", ".join("x" for _ in range(1000)) + " }\n" +
                model("  let " + ", ".join(f"y{i}" for i in range(1000)) + " = f(x)",
                      "  output o = y999"), ""),
}

LONG = ("dims-that-are-used", "dims-of-a-function-that-are-used", "calls")


def run(meshc, spec, output):
    with open(output, "wb") as file:
        child = os.fork()
        if child == 0:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.execvp(meshc, [meshc, "plan", str(spec)])
        _, status, usage = os.wait4(child, 0)
    return (os.waitstatus_to_exitcode(status), output.read_text(),
            usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


def main(meshc, folder):
    folder = pathlib.Path(folder)
    program = pathlib.Path(shutil.which(meshc)).read_bytes()
    slack = SLACK if any(name in program for name in SANITIZERS) else 1
    for name, (text, code) in SPECS.items():
        spec = folder / f"{name}.mesh"
        spec.write_text(text, encoding="utf-8")
        exit_code, said, seconds, memory = run(meshc, spec, folder / f"{name}.txt")
        print(f"{name}: {seconds:.2f} s, {memory >> 20} MiB, {code or 'a plan'}")
        assert exit_code == (1 if code else 0), (name, exit_code, said[:2000])
        assert f"[{code}]" in said if code else "error" not in said, (name, said[:2000])
        most = USED_SECONDS if name in LONG else SECONDS
        assert seconds < slack * most and memory < slack * MEMORY, name


if __name__ == "__main__":
    main(*sys.argv[1:])
