"""A folder of runtime/ includes what runtime/README.md says that it uses, and no more.

The column `uses` of the table of folders names folders and files; every folder also
uses itself, `exec/` and `layout/`. What is named there has to be used. Nothing in
runtime/ or layout/ includes anything else of this repository or of MLIR and LLVM,
and layout/ nothing but itself. Files called main.cpp begin in `app/`.
"""

import re

import tree

INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]')
# What begins the path of a header of this repository or of the compiler's libraries.
ABOVE = ("bench/", "codegen/", "dialect/", "frontend/", "passes/", "tests/", "llvm/", "llvm-c/",
         "mlir/", "mlir-c/")


def includes(*folders):
    for path in tree.files(".cpp", ".h", ".def"):
        if path.parts[0] in folders:
            for number, line in tree.lines(path):
                if match := INCLUDE.match(line):
                    yield path, number, match[1]


def read_table():
    """What each folder of runtime/ is said to use."""
    text = (tree.root() / "runtime/README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Folders$(.*?)^## ", text, re.MULTILINE | re.DOTALL)[1]
    rows = re.findall(r"^\| `(\w+)/` \|.*\|([^|]*)\|$", section, re.MULTILINE)
    return {folder: re.findall(r"`([^`]+)`", uses) for folder, uses in rows}


def check(uses):
    used = set()
    for path, number, included in includes("runtime", "layout"):
        place = f"{path}:{number}"
        if included.startswith(ABOVE) or (path.parts[0] == "layout"
                                          and included.startswith("runtime/")):
            yield f"{place}: {path.parts[0]}/ does without {included}"
        if path.parts[0] != "runtime" or not included.startswith("runtime/"):
            continue
        folder, target = path.parts[1], included.removeprefix("runtime/")
        named = [name for name in uses.get(folder, []) if target.startswith(name)]
        used.update((folder, name) for name in named)
        if named or target.startswith((f"{folder}/", "exec/")):
            continue
        if path.name == "main.cpp" and target.startswith("app/"):
            continue
        yield f"{place}: runtime/README.md does not say that `{folder}/` uses `{target}`"
    for folder, names in uses.items():
        for name in names:
            if (folder, name) not in used:
                yield f"runtime/README.md: `{folder}/` does not use `{name}`"


def main():
    uses = read_table()
    problems = list(check(uses))
    for folder in sorted({path.parts[1] for path, _, _ in includes("runtime")
                          if len(path.parts) > 2} - uses.keys()):
        problems.append(f"runtime/README.md: the table has no `{folder}/`")
    tree.finish(problems)


main()
