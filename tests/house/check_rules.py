"""A form of rule is at home in a few files, so that the next one is.

What stands behind `unless` stands for it: text both ways, what it means, its errors, the
operations that ask for it, the plan's JSON and the grammar for readers. At most MOST files of
the product know of it.
"""

import re

import tree

FOLDERS = {"codegen", "dialect", "frontend", "layout", "passes", "runtime"}

# Code that speaks of it, and texts that name it; sentences with the word do not.
KNOWS = re.compile(
    r'[.>]unless\b|\bUnless\b|UnknownUnless|NeverExempt|isExempt|"unless"|`unless`')
MOST = 12


def main():
    known = [path for path in tree.files()
             if path.parts[0] in FOLDERS and tree.is_text(path)
             and any(KNOWS.search(line) for _, line in tree.lines(path))]
    print(f"{len(known)} files know of `unless`:", *known, sep="\n  ")
    problems = []
    if "layout/LayoutRule.cpp" not in map(str, known):
        problems.append("the text of rules does not know of `unless`: what stands for a form now?")
    if len(known) > MOST:
        problems.append(f"{len(known)} files know of `unless`, at most {MOST} should")
    tree.finish(problems)


main()
