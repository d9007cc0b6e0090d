"""Writes data files for the tests: `arrays.py idx|npy FILE TYPE SHAPE VALUES`.
`arrays.py show FILE.npy` prints the elements of an f32 array.

TYPE is u8, i32 or f32 (idx) or a NumPy name such as <f4 (npy); SHAPE is 4x3, or
0d for a scalar; VALUES is `zeros` or numbers joined by commas.
"""

import struct
import sys

IDX_TYPES = {"u8": (0x08, "B"), "i32": (0x0C, "i"), "f32": (0x0D, "f")}
NPY_TYPES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|b1": "?", "<f2": "e", "|u1": "B"}


def parse(shape, values):
    sizes = [] if shape == "0d" else [int(size) for size in shape.split("x")]
    count = 1
    for size in sizes:
        count *= size
    numbers = [0] * count if values == "zeros" else [float(v) for v in values.split(",")]
    assert len(numbers) == count, (sizes, len(numbers))
    return sizes, numbers


def pack(order, letter, numbers):
    exact = numbers if letter in "fde" else [int(number) for number in numbers]
    return struct.pack(f"{order}{len(exact)}{letter}", *exact)


def idx(kind, sizes, numbers):
    code, letter = IDX_TYPES[kind]
    header = struct.pack(f">BBBB{len(sizes)}I", 0, 0, code, len(sizes), *sizes)
    return header + pack(">", letter, numbers)


def npy(kind, sizes, numbers):
    shape = "(" + "".join(f"{size}, " for size in sizes) + ")"
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + pack("<", NPY_TYPES[kind], numbers))


def show(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    assert b"'<f4'" in data[:start], data[:start]
    numbers = struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])
    print(*(f"{number:.7g}" for number in numbers))


def main(form, path, *rest):
    if form == "show":
        return show(path)
    kind, shape, values = rest
    with open(path, "wb") as file:
        file.write({"idx": idx, "npy": npy}[form](kind, *parse(shape, values)))


if __name__ == "__main__":
    main(*sys.argv[1:])
