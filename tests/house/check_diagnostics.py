"""Every diagnostic has a number of its own, is reported somewhere and has a
test that names it, as Code::UnknownDim or by its id, MC0302."""

import re

import tree

TABLE = "frontend/syntax/DiagnosticCodes.def"
ENTRY = re.compile(r"^MESHC_DIAGNOSTIC\((\w+), (\d+),")


def text_of(paths):
    return "\n".join((tree.root() / path).read_text(encoding="utf-8") for path in paths)


def main():
    table = [match.groups() for _, line in tree.lines(TABLE)
             if (match := ENTRY.match(line))]
    sources = text_of(path for path in tree.files(".cpp") if path.parts[0] != "tests")
    tests = text_of(path for path in tree.files(".cpp", ".h", ".mlir", ".py", ".sh", ".mesh")
                    if path.parts[0] == "tests" and path.parts[1] != "house")

    problems = []
    numbers = set()
    for name, number in table:
        if number in numbers:
            problems.append(f"{name}: {number} is taken")
        numbers.add(number)
        if not re.search(rf"\bCode::{name}\b", sources):
            problems.append(f"{name}: is never reported")
        if not re.search(rf"\bCode::{name}\b|\bMC0*{number}\b", tests):
            problems.append(f"{name} (MC0{number}): has no test")
    if not table:
        problems.append(f"{TABLE}: no diagnostics")
    tree.finish(problems)


main()
