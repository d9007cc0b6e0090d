"""What is no data file, wherever one is read: `data_files.py FOLDER`. Each is refused at
once, by its name and what it is; nothing is waited for, and no exception ends a process."""

import gzip
import io
import os
import pathlib
import resource
import socket
import struct
import subprocess
import sys
import zipfile
import zlib

import arrays

TRAINED = """dim batch = 2
dim k = 3
dim l = 5
model m(x: {input}) {{
  param w: f32 = ones
  output loss = mean(f32(x)) * w
}}
data over batch {{ x = {reader} }}
train {{ minimize loss optimizer sgd(lr = 0.1) steps 1 }}
"""
READERS = {
    "idx": ("f32[batch, k]", 'idx("x")'),
    "npy": ("f32[batch, k]", 'npy("x")'),
    "tokens": ("i32[batch, k]", 'tokens("x", type = u16)'),
    "text": ("i32[batch, k]", 'text("x", tokens = "bytes")'),
    "rows": ("f32[batch, k]", 'rows("x", columns = "a, b, c")'),
    "images": ("u8[batch, k, l]", 'images("x")'),
}
PREDICTED = """dim batch = 2
dim k = 3
dim c = 4
model m(x: f32[batch, k]) {
  param w: f32[k, c] = ones
  output y = einsum(x, w -> batch, c)
}
"""
SECONDS = 20
HUGE = 1 << 40


def run(words, limit=None, descriptors=()):
    """Exit code and what was said, within the time and so many bytes of addresses."""
    def prepare():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SECONDS, check=False,
                          preexec_fn=prepare, pass_fds=descriptors)
    return done.returncode, done.stdout + done.stderr


def expect(words, path, codes, *parts, limit=None):
    code, said = run(words, limit)
    assert code in codes, (words, code, said)
    assert f"'{path}'" in said and said.count("error[") == 1, (words, path, said)
    assert any(part in said for part in parts), (words, parts, said)


def make_pipe(path):
    os.mkfifo(path)


def make_link(target):
    return lambda path: os.symlink(target, path)


def make_socket(path):
    # Its name has to be short.
    before = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.chdir(before)


def make_huge(path):
    with open(path, "wb") as file:
        file.truncate(HUGE)


NO_FILES = {"a pipe": make_pipe, "a device": make_link("/dev/zero"), "a socket": make_socket,
            "a folder": os.mkdir}


def remove(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def compile_spec(folder, name, spec):
    (folder / f"{name}.mesh").write_text(spec)
    subprocess.run(["meshc", "compile", folder / f"{name}.mesh", "-o", folder / name], check=True)
    return folder / name


def pack_npz(bytes_):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", bytes_)
    return packed.getvalue()


def make_png():
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 3, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(bytes(18))) + chunk(b"IEND", b""))


def make_safetensors():
    header = b'{"w":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]}}'
    return struct.pack("<Q", len(header)) + header + bytes(48)


def get_kinds():
    npy = arrays.npy("<i4", [8], range(8))
    return {"a NumPy array (.npy)": npy, "a zip archive": pack_npz(npy),
            "a safetensors file": make_safetensors(), "a PNG image": make_png(),
            "a Parquet table": b"PAR1\x15\x04\x15" + bytes(99) + b"PAR1",
            "an Arrow table": b"ARROW1\0\0" + bytes(100)}


def check_reader(folder, reader):
    app = compile_spec(folder, reader, TRAINED.format(input=READERS[reader][0],
                                                      reader=READERS[reader][1]))
    train = [app, "train", "--data-dir", folder]
    path = folder / "x"
    for kind, make in NO_FILES.items():
        if reader == "images" and kind == "a folder":
            continue
        make(path)
        expect(train, path, [1], f"it is {kind}", "Not a directory")
        remove(path)
    if reader == "images":
        return check_images(path, train)
    if reader in ("text", "rows"):
        make_huge(path)
        expect(train, path, [1, 5], "does not fit into memory", "has a row of more than")
        remove(path)
    for kind, content in get_kinds().items():
        if kind.endswith(f"(.{reader})"):
            continue
        path.write_bytes(content)
        expect(train, path, [1], f"is {kind}")
        path.unlink()
    if reader == "tokens":
        for kind, content in (("packed with gzip", gzip.compress(bytes(range(200)))),
                              ("text", b"464 3290 318 262\n" * 9)):
            path.write_bytes(content)
            expect(train, path, [1], f"is {kind}, expected ids")
        path.unlink()
    return None


def check_images(path, train):
    (path / "a").mkdir(parents=True)
    (path / "a" / "1.png").write_bytes(make_png())
    image = path / "a" / "2.png"
    for kind, make in NO_FILES.items():
        make(image)
        expect(train, image, [1], f"it is {kind}")
        remove(image)
    # By the thread that reads ahead; with more of it than there are addresses, too.
    make_huge(image)
    expect(train, image, [5], "does not fit into memory")
    os.truncate(image, 8 << 30)
    expect(train, image, [5], "does not fit into memory", limit=4 << 30)
    image.unlink()


def check_flags(folder):
    app = compile_spec(folder, "predicted", PREDICTED)
    (folder / "x.npy").write_bytes(arrays.npy("<f4", [2, 3], range(6)))
    (folder / "w.npy").write_bytes(arrays.npy("<f4", [3, 4], range(12)))
    (folder / "w.safetensors").write_bytes(make_safetensors())
    (folder / "source").mkdir()
    x, w = ["--in", f"x={folder}/x.npy"], ["--param", f"w={folder}/w.npy"]
    bad = folder / "bad.npy"
    weights = folder / "bad.safetensors"
    top = ["--topk", "1", "--batch", "batch"]
    cases = {
        "in": (bad, ["--in", f"x={bad}", *w]),
        "param": (bad, [*x, "--param", f"w={bad}"]),
        "from": (weights, [*x, "--from", weights]),
        "folder": (folder / "source" / "w.npy", [*x, "--from", folder / "source"]),
        "names": (bad, [*x, "--from", folder / "w.safetensors", "--names", bad]),
        "labels": (bad, [*x, *w, *top, "--labels", bad]),
    }
    for name, (path, flags) in cases.items():
        for kind, make in NO_FILES.items():
            make(path)
            # A folder may be one of weights.
            expect([app, "predict", *flags], path, [1], f"it is {kind}",
                   *(["parameter", "tensor"] if kind == "a folder" else []))
            remove(path)
        if name in ("names", "labels"):
            make_huge(path)
            expect([app, "predict", *flags], path, [5], "does not fit into memory")
            os.truncate(path, 8 << 30)
            expect([app, "predict", *flags], path, [5], "does not fit into memory",
                   limit=4 << 30)
            remove(path)
        else:
            path.write_bytes(pack_npz(b"none"))
            expect([app, "predict", *flags], path, [1], "is a zip archive")
            remove(path)
    # What a shell pipes is text as any other.
    reads, writes = os.pipe()
    os.write(writes, b"one\ntwo\nthree\nfour\n")
    os.close(writes)
    code, said = run([app, "predict", *x, *w, *top, "--labels", f"/dev/fd/{reads}"],
                     descriptors=[reads])
    assert code == 0 and "four" in said, said


def main(folder):
    folder = pathlib.Path(folder)
    for reader in READERS:
        check_reader(folder, reader)
    check_flags(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
