"""What is printed fits: plans, explanations and comparisons have no line that is wider than
COLUMNS says, unless one word, such as a name, is."""

import os
import re
import sys

import compiler

MLP, GPT = "samples/mlp.mesh", ["samples/gpt2.mesh", "-Dlayers=3"]
COMMANDS = [
    ["plan", MLP],
    ["plan", MLP, "--machine", "h100", "--remarks"],
    ["plan", MLP, "--device", "1"],
    ["plan", *GPT, "--machine", "h100", "--remarks"],
    ["plan", *GPT, "--eval", "--sort", "bytes"],
    ["plan", *GPT, "--tensor", "query/weight"],
    ["plan", "samples/layouts/hybrid.mesh"],
    ["plan", MLP, "--try", "batch=data", "--try", "hidden=model", "--try", "batch=data+model"],
    ["plan", *GPT, "--try", "batch=data", "--machine", "h100"],
    ["plan", "--compare", MLP, "samples/layouts/hybrid.mesh"],
    ["explain", "c1", MLP],
    ["explain", "h", MLP],
    ["explain", "c5", *GPT],
    ["explain", "o3", *GPT, "--machine", "h100"],
    ["explain", "MC0607"],
]


def find_wide(text, width):
    for line in text.splitlines():
        if len(line) > width and len(line.split()) > 1:
            yield line


def find_misplaced(text):
    """Marks that stand below nothing."""
    lines = text.splitlines()
    for line, marks in zip(lines, lines[1:]):
        if re.match(r" +\| +\^+$", marks) and not (
                re.match(r" +\d+ \| ", line) and len(marks) <= len(line)
                and line[marks.index("^")] != " "):
            yield marks


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    problems, quotes = [], 0
    for width in (60, 80, 120, 200):
        meshc.environment["COLUMNS"] = str(width)
        for command in COMMANDS:
            text = meshc.run(*command)
            quotes += text.count("^\n")
            name = f"{' '.join(command)} at {width}"
            problems += [f"{name}: {len(line)} columns: {line}" for line in find_wide(text, width)]
            problems += [f"{name}: {marks}" for marks in find_misplaced(text)]
            if width == 60 and command[0] == "plan" and len(text.splitlines()) < 5 \
                    and "--tensor" not in command:
                problems.append(f"{name}: is hardly anything")
    if quotes < 20:
        problems.append(f"only {quotes} lines are quoted")
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(COMMANDS)} commands at 4 widths, {quotes} lines quoted")


main()
