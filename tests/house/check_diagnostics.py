"""Every diagnostic of the compiler and every error of an executable has a number
of its own, is reported somewhere and has a test that names it, as
Code::UnknownDim or by its id, MC0302."""

import re

import tree

# The table, the macro of its entries, the enumeration and what ids begin with.
TABLES = [
    ("frontend/syntax/DiagnosticCodes.def", "MESHC_DIAGNOSTIC", "Code", "MC0"),
    ("runtime/exec/ErrorCodes.def", "MESHC_ERROR", "ErrorCode", "MR0"),
]


def text_of(paths):
    return "\n".join((tree.root() / path).read_text(encoding="utf-8") for path in paths)


def check(path, macro, enumeration, prefix, sources, tests):
    entry = re.compile(rf"^{macro}\((\w+), (\d+),")
    table = [match.groups() for _, line in tree.lines(path)
             if (match := entry.match(line))]
    numbers = set()
    for name, number in table:
        if number in numbers:
            yield f"{name}: {number} is taken"
        numbers.add(number)
        if not re.search(rf"\b{enumeration}::{name}\b", sources):
            yield f"{name}: is never reported"
        if not re.search(rf"\b{enumeration}::{name}\b|\b{prefix}{number}\b", tests):
            yield f"{name} ({prefix}{number}): has no test"
    if not table:
        yield f"{path}: no diagnostics"


def main():
    sources = text_of(path for path in tree.files(".cpp") if path.parts[0] != "tests")
    tests = text_of(path for path in tree.files(".cpp", ".h", ".mlir", ".py", ".sh", ".test")
                    if path.parts[0] == "tests" and path.parts[1] != "house")
    tree.finish([problem for table in TABLES
                 for problem in check(*table, sources, tests)])


main()
