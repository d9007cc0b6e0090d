"""Every folder has a README.md that names each of its files and folders.

A file counts as named where its name, or its name without suffix, stands in
backquotes: `Mesh.h`, `Mesh.h/.cpp`, `Mesh`. Folders below tests/ mirror the
sources name by name, and those of recorded measurements grow on their own;
only the folder above them has to name them.
"""

import pathlib
import re

import tree

UNLISTED = {"README.md", "CMakeLists.txt"}


def needs_readme(folder):
    parts = folder.parts
    return not (len(parts) > 1 and parts[0] == "tests") and parts != ("bench", "results") \
        and not (parts and parts[0].startswith("."))


def named(readme):
    """What the readme has in backquotes, also split at slashes and commas."""
    names = set()
    readme = re.sub(r"```.*?```", "", readme, flags=re.S)
    for quoted in re.findall(r"`([^`]+)`", readme):
        names.add(quoted.rstrip("/"))
        names.update(re.split(r"[/,{} ]+", quoted))
        # `Mesh.h/.cpp` names every file called Mesh.
        names.update(re.findall(r"(\w+)\.\w+/\.", quoted))
    return names


def main():
    folders = {}
    for path in tree.files():
        folders.setdefault(path.parent, set()).add(path.name)
        for parent in path.parents:
            if parent != pathlib.Path("."):
                folders.setdefault(parent.parent, set()).add(parent.name)

    problems = []
    for folder, entries in sorted(folders.items()):
        if not needs_readme(folder):
            continue
        readme = tree.root() / folder / "README.md"
        if not readme.exists():
            problems.append(f"{folder}: has no README.md")
            continue
        names = named(readme.read_text(encoding="utf-8"))
        for entry in sorted(entries - UNLISTED):
            if entry.startswith("."):
                continue
            stem = entry.split(".")[0]
            if entry not in names and stem not in names:
                problems.append(f"{folder}/README.md: does not name `{entry}`")
    tree.finish(problems)


main()
