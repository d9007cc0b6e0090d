"""Reports the size of each folder and the largest files, and refuses a file of
more than 600 lines: by then it has two subjects.

LONGER names those that were longer when this was written, each with a limit. A
limit only ever comes down, and a file that no longer needs one leaves the list.
"""

import pathlib
import sys

import tree

KINDS = (".cpp", ".h", ".td", ".py", ".mesh", ".mlir", ".sh")
LARGEST = 12
LIMIT = 600
LONGER = {
    "tests/codegen/GpuKernelTest.cpp": 700,
    "tests/codegen/KernelRunner.cpp": 650,
    "tests/codegen/PtxTest.cpp": 750,
    "tests/emulation/BlasLt.cpp": 900,
    "tests/emulation/BlasLtTest.cpp": 750,
    "tests/emulation/DriverTest.cpp": 650,
    "tests/emulation/Fibers.cpp": 650,
    "tests/emulation/Nccl.cpp": 850,
    "tests/emulation/NcclTest.cpp": 800,
    "tests/runtime/ExecutableTest.cpp": 750,
}


def find_problems(sizes):
    """What is too long, and what LONGER says in vain."""
    for path, count in sizes.items():
        limit = LONGER.get(path.as_posix(), LIMIT)
        if count > limit:
            yield f"{path}: {count} lines; at most {limit}: split it by meaning"
    for name in LONGER:
        count = sizes.get(pathlib.PurePath(name), 0)
        if count <= LIMIT:
            yield f"{name}: {count} lines need no limit of their own: take it out of LONGER"


def main():
    sizes = {pathlib.PurePath(path): sum(1 for _ in tree.lines(path))
             for path in tree.files(*KINDS)}
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
    tree.finish(list(find_problems(sizes)))


main()
