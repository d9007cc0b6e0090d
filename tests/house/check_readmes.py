"""Every folder has a README.md that names each of its files and folders.

A file counts as named where its name, or its name without suffix, stands in
backquotes: `Mesh.h`, `Mesh.h/.cpp`, `Mesh`. Folders below tests/ mirror the
sources name by name, and those of recorded measurements grow on their own;
only the folder above them has to name them.

Links to files, and names of other Markdown files in backquotes, lead somewhere. The top
README is read in three minutes, and links each page of a command.
"""

import pathlib
import re

import tree

UNLISTED = {"README.md", "CMakeLists.txt"}
PAGES = "frontend/commands"
# Blocks of code aside.
MOST_WORDS = 900


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


def without_blocks(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def find_anchors(text):
    """What headings are called in links, as GitHub has it."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(path):
    """What a Markdown file refers to that is not there."""
    text = without_blocks((tree.root() / path).read_text(encoding="utf-8"))
    here = tree.root() / path.parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+://", target):
            continue
        file = here / name if name else tree.root() / path
        if not file.exists():
            yield f"{path}: there is no {target}"
        elif anchor and anchor not in find_anchors(file.read_text(encoding="utf-8")):
            yield f"{path}: {name or 'this file'} has no heading for #{anchor}"
    for name in re.findall(r"`([\w./-]+\.md)`", text):
        # In a table of results names begin where the one before them does.
        if not name.startswith("-") and not any(
                (folder / name).exists() for folder in (here, tree.root())):
            yield f"{path}: there is no {name}"


def check_top():
    """Whether the top README is short and leads on."""
    text = (tree.root() / "README.md").read_text(encoding="utf-8")
    count = len(without_blocks(text).split())
    if count > MOST_WORDS:
        yield f"README.md: {count} words; at most {MOST_WORDS}: move some to where they belong"
    for page in sorted((tree.root() / PAGES).glob("*.md")):
        if page.name not in UNLISTED and f"({PAGES}/{page.name})" not in text:
            yield f"README.md: does not link {PAGES}/{page.name}"


def main():
    folders = {}
    for path in tree.files():
        folders.setdefault(path.parent, set()).add(path.name)
        for parent in path.parents:
            if parent != pathlib.Path("."):
                folders.setdefault(parent.parent, set()).add(parent.name)

    problems = list(check_top())
    for path in tree.files(".md"):
        problems += check_links(path)
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
