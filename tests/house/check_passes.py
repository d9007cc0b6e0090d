"""A pass is one name in four spellings, says what it needs and leaves, and its
example runs.

For `def CheckLayout : Pass<"nd-check-layout">` there are CheckLayout.cpp in the
same folder and tests/passes/check-layout.mlir, which runs -nd-check-layout; for the
passes of codegen the test is in tests/codegen/. The
description has the paragraphs Needs and Leaves, and Before and After with an
`mlir` block each. The block of Before goes through the pass, with the options that
After may name ("After, with `a=1 b=2`:"), which must leave
something that verifies, and in it the statements of After, in their order: After
may leave statements out and give values, maps and types names of its own.

Arguments: repository, llvm-tblgen, meshc-opt, include folders of MLIR.
"""

import json
import pathlib
import re
import subprocess
import sys

import tree

TBLGEN, OPT, *INCLUDES = sys.argv[2:]
# Folder of the tests, by declarations.
PASSES = {"passes/Passes.td": "passes", "codegen/tiling/Passes.td": "codegen",
          "codegen/steps/Passes.td": "codegen"}


def passes(path):
    command = [TBLGEN, "--dump-json", str(tree.root() / path)]
    command += [f"-I{folder}" for folder in [tree.root(), *INCLUDES]]
    records = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for name in records["!instanceof"]["Pass"] + records["!instanceof"].get("InterfacePass", []):
        yield name, records[name]


def kebab(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


# A name of a value, map, block or type; a number; a string; a word; a sign.
TOKEN = re.compile(r"""[%#!^][\w.]+|-?\d+\.\d*(?:e[+-]?\d+)?|"[^"]*"|[\w.]+|->|\S""", re.IGNORECASE)
# Where a statement begins: an operation, an alias, a block, the end of a region.
STATEMENT = re.compile(r"^\s*(?=(?:%\w+(?:, %\w+)* = )?[a-z]+\.[a-z_]+[ (]|[!#]\w+ = |module "
                       r"|\^|\})", re.MULTILINE)
ALIAS = re.compile(r"\s*([!#]\w+) = (.*)", re.DOTALL)
REASONS = re.compile(r"\bloc\(.*\)$|\{causes = \[.*\]\} ?", re.MULTILINE)


def statements(text, types):
    """Each statement as a list of tokens, types by what they stand for, without
    what only says why something is there. Adds the aliases of types to `types`."""
    found = []
    for statement in STATEMENT.split(REASONS.sub("", text)):
        alias = ALIAS.match(statement)
        tokens = TOKEN.findall(alias.group(2) if alias else statement)
        tokens = [word for token in tokens for word in types.get(token, [token])]
        if alias and alias.group(1).startswith("!"):
            types[alias.group(1)] = tokens
        elif not alias and tokens and tokens not in (["module", "{"], ["}"]):
            found.append(tokens)
    return found


def is_name(token):
    """Of a value, block or map: examples have names of their own for these."""
    return token[0] in "%^" or (token[0] == "#" and "." not in token)


def are_equal(a, b):
    try:
        return a == b or ("." in a and float(a) == float(b))
    except ValueError:
        return False


def unify(wanted, given, names):
    """`names` and what makes the tokens equal besides; None if nothing does. A
    definition gives a name a new meaning: bodies use the same ones."""
    names = dict(names)
    if wanted[0].startswith("^"):
        defined = len(wanted)
    else:
        defined = wanted.index("=") if wanted[0].startswith("%") else 0
    for place, (a, b) in enumerate(zip(wanted, given)):
        if is_name(a) and a[0] == b[0]:
            if place < defined:
                names[a] = b
            elif names.setdefault(a, b) != b:
                return None
        elif not are_equal(a, b):
            return None
    return names if len(wanted) == len(given) else None


def find_missing(wanted, given):
    """The first statement that `given` has not, behind those before it; None if
    it has all."""
    furthest = 0

    def search(index, start, names):
        nonlocal furthest
        furthest = max(furthest, index)
        if index == len(wanted):
            return True
        for place in range(start, len(given)):
            extended = unify(wanted[index], given[place], names)
            if extended is not None and search(index + 1, place + 1, extended):
                return True
        return False

    return None if search(0, 0, {}) else " ".join(wanted[furthest])


def run_example(name, flag, options, before, after):
    result = subprocess.run([OPT, f"-{flag}={options}", "-verify-diagnostics", "-"],
                            input=before, capture_output=True, text=True)
    if result.returncode != 0:
        return [f"{name}: the example does not run: {result.stderr.strip()}"]
    types = {}
    given = statements(result.stdout, types)
    missing = find_missing(statements(after, types), given)
    return [f"{name}: the pass does not leave '{missing}'"] if missing else []


def check(path, name, record):
    flag = record["argument"]
    if not flag.endswith("-" + kebab(name)):
        yield f"{name}: the flag '{flag}' is not <dialect>-{kebab(name)}"
    folder = pathlib.PurePath(path).parent
    if not (tree.root() / folder / f"{name}.cpp").exists():
        yield f"{name}: there is no {folder}/{name}.cpp"
    test = tree.root() / "tests" / PASSES[path] / f"{kebab(name)}.mlir"
    if not test.exists():
        yield f"{name}: there is no tests/{PASSES[path]}/{test.name}"
    elif f"-{flag}" not in test.read_text(encoding="utf-8"):
        yield f"{name}: tests/{PASSES[path]}/{test.name} does not run -{flag}"

    description = record["description"]
    for part in ("Needs", "Leaves", "Before", "After"):
        if not re.search(rf"\b{part}\b\W", description):
            yield f"{name}: the description has no '{part}'"
    blocks = re.findall(r"```mlir\n(.*?)```", description, re.DOTALL)
    if len(blocks) < 2:
        yield f"{name}: the description does not show IR before and after"
    else:
        options = re.search(r"After, with `(.*?)`", description)
        yield from run_example(name, flag, options.group(1) if options else "",
                               *blocks[:2])


def main():
    problems = []
    for path in PASSES:
        found = list(passes(path))
        problems += [problem for name, record in found for problem in check(path, name, record)]
        if not found:
            problems.append(f"{path}: no passes")
    tree.finish(problems)


main()
