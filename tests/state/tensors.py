"""Tensors of files of safetensors."""

import json
import struct

FORMS = {"F32": "f", "I32": "i", "BOOL": "?"}


def read(path):
    """Each as a list, by its name as the spec has it."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        form = FORMS[entry["dtype"]]
        count = (end - begin) // struct.calcsize(form)
        tensors[name.replace(".", "/")] = list(
            struct.unpack(f"<{count}{form}", data[begin:end]))
    return tensors
