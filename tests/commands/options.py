"""The options of the commands of meshc and of executables: what `--help` lists beside
what the pages in frontend/commands/ say.

A row of a table with the head "option" is where a page says what the options in its first
cell are. Each option of a command is in one such row, of its own page or of one that several
commands share, and no page names an option that no command has.
"""

import pathlib
import re
import subprocess

FOLDER = pathlib.Path("frontend/commands")
OPTION = r"--?[A-Za-z][\w-]*"
# Pages for several commands: a column of this one says for which.
SPEC_PAGE = "spec-options"
SHARED = {"processes": ("train", "eval", "predict", "bench"),
          "gpus": ("train", "eval", "predict", "bench"),
          "parameters": ("train", "eval", "predict")}
EVERYWHERE = {"-h", "--help"}
# Of torchrun, sbatch, head, srun, mpirun, tensorboard.
OTHERS = {"--no-python", "--nproc-per-node", "--max-restarts", "--requeue", "-c", "-n", "-np",
          "-x", "--logdir"}


def ask(*command):
    done = subprocess.run([str(word) for word in (*command, "--help")], capture_output=True,
                          text=True, check=True)
    return done.stdout


def listed_commands(text):
    section = re.search(r"^Subcommands:\n(.*?)\n\n", text, re.M | re.S)
    return re.findall(r"^  (\w+)", section[1], re.M)


def listed_options(text):
    lines = re.findall(r"^  (-[\w,-]+)", text, re.M)
    return {name.partition("{")[0] for line in lines for name in line.split(",")} - EVERYWHERE


def read_help(meshc, programs):
    """What each command lists: of meshc, and of executables any of them."""
    known = {}
    for program in (meshc, *programs):
        for command in listed_commands(ask(program)):
            known.setdefault(command, set()).update(listed_options(ask(program, command)))
    return known


def read_rows(text):
    """The options of each row, and what its second cell says."""
    for table in re.findall(r"^\| option \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        for row in table.splitlines():
            _, first, second, *_ = re.split(r"(?<!\\)\|", row)
            yield re.findall(rf"`({OPTION})", first), second


def read_commands(column, known):
    """Of "all", "all but `check`" or "`compile`, `run`", which commands that is."""
    named = set(re.findall(r"`(\w+)`", column))
    if column.strip().startswith("all"):
        return {"check", "plan", "explain", "compile", "run"} - named
    assert named and named <= known.keys(), column
    return named


def check(root, meshc, programs):
    """What is wrong with the pages; nothing, if they are right."""
    known = read_help(meshc, programs)
    pages = {path.stem: path.read_text(encoding="utf-8")
             for path in sorted((root / FOLDER).glob("*.md"))}
    told = {command: [] for command in known}
    for page, text in pages.items():
        for names, column in read_rows(text):
            if page in known:
                told[page] += names
            for command in SHARED.get(page, ()):
                told[command] += names
            if page == SPEC_PAGE:
                for command in read_commands(column, known):
                    told[command] += names
    for command, names in told.items():
        if command not in pages:
            yield f"{FOLDER}: there is no page {command}.md"
        for name in sorted(known[command] - set(names)):
            yield f"{FOLDER}/{command}.md and what is shared do not say what {name} is"
        for name in sorted(set(names) - known[command]):
            yield f"{FOLDER}: {command} has no option {name}"
        for name in sorted(name for name in set(names) if names.count(name) > 1):
            yield f"{FOLDER}: {name} of {command} is in several rows"
    existing = set().union(OTHERS, EVERYWHERE, {"--version"}, *known.values())
    for page, text in pages.items():
        for name in sorted(set(find_options(text)) - existing):
            yield f"{FOLDER}/{page}.md: no command has {name}"


def find_options(text):
    """What a page names as options, in backquotes or in commands that it shows."""
    code = re.findall(r"^\$ (.*)$", text, re.M) + re.findall(r"`([^`\n]+)`", text)
    for piece in code:
        yield from re.findall(rf"(?<!\S)({OPTION})", piece)
