"""Words that have no place in the repository: names that say nothing, notes of
unfinished work, and paths of the machine it was written on."""

import re

import tree

CODE = (".cpp", ".h", ".td", ".py", ".fbs", ".def")
# Parts of CamelCase names: "New" is none of "Newton".
FORBIDDEN_PARTS = ["Utils", "Helper", "Manager", "Common", "Misc", "New", "V2",
                   "Impl"]
PART = re.compile("(" + "|".join(FORBIDDEN_PARTS) + r")(?![a-z])")
DECLARATION = re.compile(
    r"\b(?:class|struct|enum(?: class)?|namespace|def|table|union)\s+([A-Za-z_]\w*)")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE = re.compile(r"(^|[^A-Za-z0-9_.-])/(wo" r"rk|fa" r"rm|tmp/wt|home/\w+)/")


def main():
    problems = []
    for path in filter(tree.is_text, tree.files()):
        stem = path.name.split(".")[0]
        if path.suffix in CODE and PART.search(stem):
            problems.append(f"{path}: the file's name says nothing")
        for number, line in tree.lines(path):
            place = f"{path}:{number}"
            if UNFINISHED.search(line):
                problems.append(f"{place}: unfinished: {line.strip()}")
            if MACHINE.search(line):
                problems.append(f"{place}: path of one machine: {line.strip()}")
            if path.suffix in CODE:
                for name in DECLARATION.findall(line):
                    # A pimpl's inside is called that everywhere.
                    if PART.search(name) and name != "Impl":
                        problems.append(f"{place}: '{name}' says nothing")
    tree.finish(problems)


main()
