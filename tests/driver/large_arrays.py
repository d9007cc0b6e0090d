"""An input and an output of 256 MiB each, through a program for batches of 1 MiB:
`large_arrays.py PROGRAM FOLDER`. The memory that the process takes at most is
that of a run on one batch and no more than 32 MiB."""

import os
import pathlib
import struct
import sys

ROWS, WIDTH, BATCH = 1 << 20, 64, 4096
SLACK = 32 << 20


def header(*shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def place(row, column):
    return 128 + 4 * (WIDTH * row + column)


def run(program, folder, rows):
    """The most memory that it took, in bytes."""
    with open(folder / "x.npy", "wb") as file:
        file.write(header(rows, WIDTH))
        file.truncate(place(rows, 0))
        for row in (0, rows // 2 + 1, rows - 1):
            file.seek(place(row, row % WIDTH))
            file.write(struct.pack("<f", row))
    (folder / "scale.npy").write_bytes(
        header(WIDTH) + struct.pack(f"<{WIDTH}f", *(3 for _ in range(WIDTH))))
    command = [program, "predict", "--batch", "batch", "--threads", "2",
               "--in", f"x={folder}/x.npy", "--in", f"scale={folder}/scale.npy",
               "--out", f"y={folder}/y.npy"]
    child = os.spawnv(os.P_NOWAIT, program, command)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, status
    with open(folder / "y.npy", "rb") as file:
        assert file.read(128) == header(rows, WIDTH)
        for row in (0, rows // 2 + 1, rows - 1):
            file.seek(place(row, row % WIDTH))
            found, = struct.unpack("<f", file.read(4))
            assert found == 3 * row + 1, (row, found)
            file.seek(place(row, (row + 1) % WIDTH))
            assert file.read(4) == struct.pack("<f", 1)
        assert file.seek(0, os.SEEK_END) == place(rows, 0)
    return usage.ru_maxrss << 10


def main(program, folder):
    folder = pathlib.Path(folder)
    one_batch = run(program, folder, BATCH)
    most = run(program, folder, ROWS)
    print(f"{one_batch >> 20} MiB for one batch, {most >> 20} MiB for {ROWS // BATCH}")
    assert most < one_batch + SLACK, (one_batch, most)
    for name in ("x.npy", "y.npy"):
        (folder / name).unlink()


main(*sys.argv[1:])
