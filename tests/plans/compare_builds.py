"""Compares what two builds of the compiler make of the same specs, byte for byte:
text and JSON of the plan and the emitted kernels, for CPUs, sm_80 and sm_90.

  python3 tests/plans/compare_builds.py [--bodies] OLD/bin/meshc build/bin/meshc [SPEC...]

With --bodies before them kernels are compared as sets of bodies, and plans without the
names of kernels: for changes of how many kernels are the same one.

Without SPEC: every case of cases.py and the kernels of bench/gpu_kernels, f32 and
bf16. For changes that must not change a program: refactorings, and what makes the
compiler faster. Prints what differs and how much was compared; exits with 3 if
anything differs.
"""

import difflib
import pathlib
import re
import sys

import cases
import compiler

ROOT = pathlib.Path(__file__).resolve().parents[2]

GPU_KERNELS = ["adam", "elementwise", "gelu", "layer_norm", "softmax"]

KERNELS = {
    "cpu": ["--target", "cpu", "--cpu", "x86-64-v3"],
    "sm_80": ["--target", "cuda", "--gpu", "sm_80"],
    "sm_90": ["--target", "cuda", "--gpu", "sm_90"],
}


FUNCTION = re.compile(r"^ +(?:llvm|gpu)\.func @(\w+)", re.MULTILINE)


def get_bodies(text):
    """The functions of a module, each once and without its name, in order of their text."""
    starts = [match.start() for match in FUNCTION.finditer(text)] + [len(text)]
    bodies = set()
    for start, end in zip(starts, starts[1:]):
        body = text[start:end].rstrip("} \n")
        bodies.add(re.sub(rf"@{FUNCTION.match(body)[1]}\b", "@kernel", body))
    return text[:starts[0]] + "\n".join(sorted(bodies))


def without_symbols(name, text):
    if name.startswith("kernels"):
        return get_bodies(text)
    return re.sub(r'"symbol": "\w+"', '"symbol": ""', text)


def get_specs(paths):
    if paths:
        return {path: [str(pathlib.Path(path).resolve())] for path in paths}
    specs = {name: [argument for argument in arguments if argument not in ("--target", "cuda")]
             for name, arguments in cases.CASES.items()}
    for name in GPU_KERNELS:
        for precision in ("f32", "bf16"):
            specs[f"{name}-{precision}"] = [f"bench/gpu_kernels/{name}.mesh",
                                            "--precision", precision]
    return specs


def get_outputs(meshc, arguments):
    """What is compared, by name."""
    for target in ("cpu", "cuda"):
        for form in ("text", "json"):
            yield (f"plan {target} {form}",
                   meshc.run("plan", *arguments, "--target", target, "--emit", form))
    for name, options in KERNELS.items():
        path = pathlib.Path(meshc.folder.name) / "kernels"
        meshc.run("compile", *arguments, *options, "--emit", "kernels", "-o", str(path))
        yield f"kernels {name}", path.read_text(encoding="utf-8")


def main():
    arguments = sys.argv[1:]
    compares_bodies = arguments[0] == "--bodies"
    if compares_bodies:
        arguments.pop(0)
    old, new = (compiler.Compiler(path, ROOT) for path in arguments[:2])
    compared = different = 0
    for spec, options in get_specs(arguments[2:]).items():
        outputs = zip(get_outputs(old, options), get_outputs(new, options), strict=True)
        for (name, before), (_, after) in outputs:
            compared += 1
            if compares_bodies:
                before, after = (without_symbols(name, text) for text in (before, after))
            if before == after:
                continue
            different += 1
            diff = list(difflib.unified_diff(before.splitlines(), after.splitlines(),
                                             f"old {spec} {name}", f"new {spec} {name}",
                                             lineterm="", n=1))
            print("\n".join(diff[:40]))
            if len(diff) > 40:
                print(f"... {len(diff) - 40} lines more")
    print(f"{different} of {compared} outputs differ")
    sys.exit(3 if different else 0)


main()
