"""Arrays of f32 or i32 in NumPy's format 1.0."""

import math
import struct


def write(path, values, shape=None, form="f"):
    """`values` in row-major order; without a shape they are a vector. `form` is "f" or "i"."""
    shape = [len(values)] if shape is None else shape
    assert len(values) == math.prod(shape), (len(values), shape)
    sizes = "".join(f"{size}, " for size in shape)
    header = f"{{'descr': '<{form}4', 'fortran_order': False, 'shape': ({sizes}), }}"
    # What precedes the values is a multiple of 64 bytes.
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() +
                   struct.pack(f"<{len(values)}{form}", *values))


def read_bytes(path):
    """The values as they lie in the file."""
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:]


def read(path):
    data = read_bytes(path)
    return struct.unpack(f"<{len(data) // 4}f", data)
