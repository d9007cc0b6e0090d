"""Runs what the READMEs show.

In a block fenced as ```console, a line "$ command" is run from a folder that has
what the top folder has, but a `build` of its own, and must exit with 0 and print
the lines below it. A line "..." stands for any lines. A block fenced as ```mesh that has a model must pass `meshc check`.
Commands that are not meshc's are left to other tests.

To write the new output into the READMEs:
python3 tests/commands/check_readmes.py build/bin/meshc . --update
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ELLIPSIS = "..."
PROGRAM = "build/bin/meshc"


class Reader:
    def __init__(self, meshc, root, update):
        self.meshc = os.path.abspath(meshc)
        self.root = pathlib.Path(root).absolute()
        self.update = update
        self.folder = tempfile.TemporaryDirectory(prefix="meshc-")
        cache = os.path.join(self.folder.name, "cache")
        self.environment = dict(os.environ, MESHC_CACHE_DIR=cache)
        self.top = self.make_top()
        self.problems = []
        self.num_checked = 0

    def make_top(self):
        """A folder for what the commands write."""
        top = pathlib.Path(self.folder.name) / "top"
        (top / "build").mkdir(parents=True)
        for path in self.root.iterdir():
            if path.name != "build":
                (top / path.name).symlink_to(path)
        return top

    def run(self, command, where):
        done = subprocess.run(["bash", "-c", command.replace(PROGRAM, self.meshc, 1)],
                              cwd=self.top, env=self.environment, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.problems.append(f"{where}: {command}\nexit code {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout.replace(self.meshc, PROGRAM).rstrip("\n").split("\n")

    def check_console(self, lines, where):
        """The block with the output that the commands give now."""
        result, at = [], 0
        while at < len(lines):
            assert lines[at].startswith("$ "), f"{where}: expected a command, {lines[at]!r}"
            command = lines[at][2:]
            end = at + 1
            while end < len(lines) and not lines[end].startswith("$ "):
                end += 1
            shown = lines[at + 1:end]
            result.append(lines[at])
            at = end
            if not command.startswith(PROGRAM + " "):
                result += shown
                continue
            self.num_checked += 1
            printed = self.run(command, where)
            if not matches(shown, printed):
                self.problems.append(f"{where}: {command}\nprints\n" + "\n".join(printed))
            result += renew(shown, printed)
        return result

    def check_spec(self, lines, where):
        if not any(line.startswith("model ") for line in lines):
            return
        self.num_checked += 1
        path = pathlib.Path(self.folder.name) / "shown.mesh"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.run(f"{PROGRAM} check {path}", where)

    def check_file(self, path):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(self.root)

        def check(block):
            where = f"{name}:{text.count(chr(10), 0, block.start()) + 1}"
            lines = block[2].rstrip("\n").split("\n")
            if block[1] == "console":
                lines = self.check_console(lines, where)
            elif block[1] == "mesh":
                self.check_spec(lines, where)
            return f"```{block[1]}\n" + "\n".join(lines) + "\n```"

        renewed = re.sub(r"^```(\w*)\n(.*?)^```$", check, text, flags=re.M | re.S)
        if self.update:
            path.write_text(renewed, encoding="utf-8")


def segments(shown):
    """The pieces between ellipses."""
    pieces = [[]]
    for line in shown:
        if line == ELLIPSIS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def matches(shown, printed):
    pattern = r"(?:.*\n)*".join("".join(re.escape(line + "\n") for line in piece)
                                for piece in segments(shown))
    return not shown or re.fullmatch(pattern, "".join(line + "\n" for line in printed))


def renew(shown, printed):
    """`shown` with its lines as they are printed now: all of them, or of each
    piece between ellipses as many as before from its first line on."""
    if not shown or ELLIPSIS not in shown:
        return printed if shown else []
    result = []
    for number, piece in enumerate(segments(shown)):
        if number > 0:
            result.append(ELLIPSIS)
        if piece and piece[0] in printed:
            start = printed.index(piece[0])
            result += printed[start:start + len(piece)]
        else:
            result += piece
    return result


def main():
    reader = Reader(sys.argv[1], sys.argv[2], "--update" in sys.argv[3:])
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=reader.root, capture_output=True,
                            text=True, check=True).stdout.split()
    for name in listed:
        reader.check_file(reader.root / name)
    if reader.num_checked < 5:
        sys.exit(f"only {reader.num_checked} commands and specs are shown; is the pattern right?")
    if reader.problems and not reader.update:
        sys.exit("\n\n".join(reader.problems) + "\n\n" + __doc__)


main()
