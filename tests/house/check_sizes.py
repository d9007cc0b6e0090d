"""Reports the size of each folder and the largest files; it never fails for
being large, only for finding nothing to measure."""

import sys

import tree

KINDS = (".cpp", ".h", ".td", ".py", ".mesh", ".mlir", ".sh")
LARGEST = 12


def main():
    sizes = {path: sum(1 for _ in tree.lines(path)) for path in tree.files(*KINDS)}
    if not sizes:
        sys.exit("found no sources")
    folders = {}
    for path, count in sizes.items():
        files, total = folders.get(path.parts[0], (0, 0))
        folders[path.parts[0]] = (files + 1, total + count)
    print(f"{'folder':<12}{'files':>8}{'lines':>8}")
    for folder, (files, total) in sorted(folders.items()):
        print(f"{folder:<12}{files:>8}{total:>8}")
    print("\nlargest")
    for path in sorted(sizes, key=sizes.get, reverse=True)[:LARGEST]:
        print(f"{sizes[path]:>6}  {path}")


main()
