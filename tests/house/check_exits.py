"""The exit codes of the top README are those of the runtime and of the compiler,
and no others."""

import re

import tree


def numbers(path, pattern):
    text = (tree.root() / path).read_text(encoding="utf-8")
    return {int(number) for number in re.findall(pattern, text, re.MULTILINE)}


def main():
    table = (tree.root() / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Exit codes$(.*?)^## ", table, re.MULTILINE | re.DOTALL)
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", section[1], re.MULTILINE)}
    used = numbers("runtime/exec/Error.h", r"^  \w+ = (\d+),") | \
        numbers("frontend/driver/Commands.h", r"^inline constexpr int exit\w+ = (\d+);")
    problems = [f"README.md: exit code {code} is not listed" for code in sorted(used - listed)]
    problems += [f"README.md: nothing ends with exit code {code}" for code in sorted(listed - used)]
    tree.finish(problems)


main()
