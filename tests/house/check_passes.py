"""A pass is one name in four spellings, says what it needs and leaves, and its
example runs.

For `def CheckLayout : Pass<"nd-check-layout">` there are CheckLayout.cpp in the
same folder and tests/passes/check-layout.mlir, which runs -nd-check-layout. The
description has the paragraphs Needs and Leaves, and Before and After with an
`mlir` block each; the block of Before goes through the pass, which must leave
something that verifies.

Arguments: repository, llvm-tblgen, meshc-opt, include folders of MLIR.
"""

import json
import re
import subprocess
import sys

import tree

TBLGEN, OPT, *INCLUDES = sys.argv[2:]
PASSES = "passes/Passes.td"


def passes():
    command = [TBLGEN, "--dump-json", str(tree.root() / PASSES)]
    command += [f"-I{folder}" for folder in [tree.root(), *INCLUDES]]
    records = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for name in records["!instanceof"]["Pass"] + records["!instanceof"].get("InterfacePass", []):
        yield name, records[name]


def kebab(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def run_example(name, flag, example):
    result = subprocess.run([OPT, f"-{flag}", "-verify-diagnostics", "-"],
                            input=example, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    return [f"{name}: the example does not run: {result.stderr.strip()}"]


def check(name, record):
    flag = record["argument"]
    if not flag.endswith("-" + kebab(name)):
        yield f"{name}: the flag '{flag}' is not <dialect>-{kebab(name)}"
    if not (tree.root() / "passes" / f"{name}.cpp").exists():
        yield f"{name}: there is no passes/{name}.cpp"
    test = tree.root() / "tests" / "passes" / f"{kebab(name)}.mlir"
    if not test.exists():
        yield f"{name}: there is no tests/passes/{test.name}"
    elif f"-{flag}" not in test.read_text(encoding="utf-8"):
        yield f"{name}: tests/passes/{test.name} does not run -{flag}"

    description = record["description"]
    for part in ("Needs", "Leaves", "Before", "After"):
        if not re.search(rf"\b{part}\b\W", description):
            yield f"{name}: the description has no '{part}'"
    blocks = re.findall(r"```mlir\n(.*?)```", description, re.DOTALL)
    if len(blocks) < 2:
        yield f"{name}: the description does not show IR before and after"
    else:
        yield from run_example(name, flag, blocks[0])


def main():
    found = list(passes())
    problems = [problem for name, record in found for problem in check(name, record)]
    if not found:
        problems.append(f"{PASSES}: no passes")
    tree.finish(problems)


main()
