"""C++ is formatted by clang-format 14; text has no trailing blanks, no tabs
where blanks are meant, and ends in one newline."""

import subprocess

import tree

CLANG_FORMAT = "clang-format-14"
TAB_SUFFIXES = {".cpp", ".h", ".td", ".py", ".sh", ".mesh", ".mlir", ".fbs"}


def unformatted(paths):
    """The files that clang-format would change, by its first complaint about each."""
    result = subprocess.run(
        [CLANG_FORMAT, "--dry-run", "-Werror", *paths],
        cwd=tree.root(), capture_output=True, text=True)
    first = {}
    for line in result.stderr.splitlines():
        if ": error:" in line:
            first.setdefault(line.split(":")[0], line)
    if result.returncode != 0 and not first:
        return [result.stderr]
    return list(first.values())


def main():
    problems = unformatted([str(path) for path in tree.files(".cpp", ".h")])
    for path in filter(tree.is_text, tree.files()):
        text = (tree.root() / path).read_text(encoding="utf-8")
        for number, line in tree.lines(path):
            if line != line.rstrip():
                problems.append(f"{path}:{number}: trailing blanks")
            if "\t" in line and path.suffix in TAB_SUFFIXES:
                problems.append(f"{path}:{number}: tab")
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            problems.append(f"{path}: does not end in one newline")
    tree.finish(problems)


main()
