"""Mutated programs, specs, data files and executables end without a crash, without
taking two seconds for one, and with an exit code of `frontend/commands/exit-codes.md`.

Arguments: meshc-mutants, meshc, the repository. A short run by default; on demand
  --count N      mutants of each kind in one process: specs are planned, programs run
  --commands N   specs and data by real command lines
  --files N      executables with one byte changed, anywhere, and as real processes
  --resealed N   executables with other programs and the seal for these, or cut off
  --before       executables with each byte changed that is read before the seal is
  --seed N       others
Those that are 0 are left out. Mutants that fail stay in the folder that is named then.
"""

import argparse
import gzip
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

from commands import SPEC, Commands, mutate
from files import Files
from processes import Ends, limit_memory


def exit_codes(root):
    page = (root / "frontend/commands/exit-codes.md").read_text(encoding="utf-8")
    return {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.M)} - {70}


def data_files(folder):
    """Sound ones of every form, small enough that a change meets what matters."""
    values = bytes(range(60))
    idx = {"idx-1": struct.pack(">4BI", 0, 0, 8, 1, 60) + values,
           "idx-3": struct.pack(">4B3I", 0, 0, 8, 3, 5, 3, 4) + values,
           "idx-f32": struct.pack(">4B2I", 0, 0, 13, 2, 5, 3) + values}
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }\n"
    npy = {"npy-1": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values,
           "npy-2": b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + values}
    idx.update({f"{name}.gz": gzip.compress(content) for name, content in list(idx.items())})
    for name, content in {**idx, **npy}.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in idx], [folder / name for name in npy]


def specs(root):
    found = sorted((root / "samples").glob("*.mesh"))
    found += sorted((root / "tests").glob("**/*.mesh"))
    assert len(found) >= 4, found
    return found


def programs(meshc, root, folder):
    """Specs to compile and run, and a plan for GPUs, a program without kernels; `plan`
    leaves it for `explain`."""
    small = (root / "samples/mlp.mesh").read_text(encoding="utf-8")
    for dim, size in (("batch", 12), ("pixel", 6), ("hidden", 8)):
        small = re.sub(rf"^dim {dim} .*$", f"dim {dim} = {size}", small, flags=re.M)
    texts = {"mlp": small, "loss": SPEC,
             "one": re.sub("^mesh .*$", "mesh data = 3", small, flags=re.M).replace(
                 "hidden -> model", "")}
    for name, text in texts.items():
        (folder / f"{name}.mesh").write_text(text, encoding="utf-8")
    subprocess.run([meshc, "plan", folder / "mlp.mesh", "--target", "cuda"], check=True,
                   capture_output=True,
                   env={"PATH": "/usr/bin:/bin", "MESHC_CACHE_DIR": str(folder / "cuda")})
    return [*(folder / f"{name}.mesh" for name in texts),
            *sorted((root / "tests/end_to_end").glob("*.mesh")), *(folder / "cuda").glob("last-plan-*")]


def check_kinds(given, folder):
    """In one process. Whether there were no faults."""
    idx, npy = data_files(folder)
    sound = True
    for kind, files in (("program", programs(given.meshc, given.root, folder)),
                        ("spec", specs(given.root)), ("idx", idx), ("npy", npy)):
        done = subprocess.run(
            [str(word) for word in (given.mutants, kind, given.seed, given.count, folder,
                                    *files)], stdout=subprocess.PIPE, check=False)
        counts = json.loads(done.stdout)
        print(counts, flush=True)
        sound &= counts["faults"] == 0 and counts["refused"] > 0
        sound &= (counts["run"] > 0) == (kind == "program")
        sound &= (counts["planned"] > 0) == (kind == "spec")
        assert counts["accepted"] + counts["refused"] + counts["faults"] == given.count
    return sound


def check_commands(given, commands):
    for number in range(given.commands):
        (commands.plan, commands.train)[number % 2]()
    print({"commands": given.commands, "exit codes": commands.counts,
           "longest": round(commands.ends.longest, 3)}, flush=True)
    return commands.faults


def check_files(given, files):
    files.without_start()
    files.own_name()
    for number in range(given.files):
        if number % 4 == 0:
            files.in_each_class(number // 4)
        else:
            files.anywhere()
    for number in range(given.resealed):
        if number % 20 == 19:
            files.cut()
        else:
            files.resealed(mutate)
    if given.before:
        files.all_before()
    if not files.report():
        files.faults.append("more is read before the seal than runtime/exec/ExecutableSeal.h says")
    return files.faults


def main():
    parser = argparse.ArgumentParser()
    for name in ("mutants", "meshc", "root"):
        parser.add_argument(name, type=lambda text: pathlib.Path(text).resolve())
    for name, default in (("count", 400), ("commands", 40), ("files", 400), ("resealed", 60),
                          ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--before", action="store_true")
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="meshc-mutants-"))
    faults = []
    if given.count and not check_kinds(given, folder):
        faults.append("in one process")
    # A sanitizer's own start reads of an executable what it likes, when it likes.
    sanitized = b"__asan_init" in given.meshc.read_bytes() or (
        b"__tsan_init" in given.meshc.read_bytes())
    if not sanitized:
        limit_memory()
    environment = {"PATH": "/usr/bin:/bin", "MESHC_CACHE_DIR": str(folder / "cache")}
    codes, numbers = exit_codes(given.root), random.Random(given.seed)
    commands = Commands(given.meshc, folder, Ends(environment, folder), codes, numbers)
    faults += check_commands(given, commands)
    if sanitized:
        print("executables: not with sanitizers")
    elif given.files or given.resealed or given.before:
        faults += check_files(given, Files(commands.program, folder, Ends(environment, folder),
                                           codes, numbers))
    for fault in faults:
        print("fault:", fault)
    if faults:
        sys.exit(f"mutants that failed are in {folder}")
    subprocess.run(["rm", "-r", folder], check=True)


main()
