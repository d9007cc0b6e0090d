"""The exit codes of their page are those of the runtime and of the compiler, and no
others."""

import re

import tree

PAGE = "frontend/commands/exit-codes.md"


def numbers(path, pattern):
    text = (tree.root() / path).read_text(encoding="utf-8")
    return {int(number) for number in re.findall(pattern, text, re.MULTILINE)}


def main():
    listed = numbers(PAGE, r"^\| (\d+) \|")
    used = numbers("runtime/exec/Error.h", r"^  \w+ = (\d+),") | \
        numbers("frontend/driver/Commands.h", r"^inline constexpr int exit\w+ = (\d+);")
    problems = [f"{PAGE}: exit code {code} is not listed" for code in sorted(used - listed)]
    problems += [f"{PAGE}: nothing ends with exit code {code}" for code in sorted(listed - used)]
    tree.finish(problems)


main()
