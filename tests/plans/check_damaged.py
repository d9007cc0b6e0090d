"""explain trusts nothing in the plan it remembered: whatever bytes are there, it
explains, says what is wrong (exit code 4), or finds no such value (1)."""

import pathlib
import random
import subprocess
import sys

import cases
import compiler


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    meshc.run("explain", "c1", code=1)  # no plan yet
    meshc.run("plan", cases.MLP)
    assert "all_reduce" in meshc.run("explain", "c1")
    path, = pathlib.Path(meshc.folder.name).glob("last-plan-*")
    whole = path.read_bytes()

    numbers = random.Random(5)
    damaged = [b"", whole[:7], whole[:len(whole) // 2], b"\x7fELF" + whole[4:]]
    for _ in range(120):
        changed = bytearray(whole)
        for _ in range(numbers.choice((1, 1, 8))):
            changed[numbers.randrange(len(changed))] = numbers.randrange(256)
        damaged.append(bytes(changed))
    codes = set()
    for content in damaged:
        path.write_bytes(content)
        done = subprocess.run([meshc.meshc, "explain", "c1"], cwd=meshc.root,
                              env=meshc.environment, capture_output=True, check=False)
        codes.add(done.returncode)
        assert done.returncode in (0, 1, 4), (done, content[:64])
        assert (done.returncode == 0) != bool(done.stderr), done
    assert {0, 4} <= codes, codes


main()
