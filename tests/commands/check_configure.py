"""The project configures without the CUDA toolkit, and with it compares its own
declarations with NVIDIA's headers where those are."""

import os
import pathlib
import subprocess
import sys
import tempfile

COMPARED = "meshc_cuda_abi_tests"
COMPILED = "MESHC_REAL_HEADERS"


def configure(root, toolkit):
    """build.ninja and the cache of a fresh build tree."""
    with tempfile.TemporaryDirectory(prefix="meshc-") as folder:
        done = subprocess.run(
            ["cmake", "--preset", "default", "-B", folder, f"-DMESHC_CUDA_TOOLKIT={toolkit}"],
            cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return [(pathlib.Path(folder) / name).read_text(encoding="utf-8")
                for name in ("build.ninja", "CMakeCache.txt")]


def main():
    root = pathlib.Path(sys.argv[2]).absolute()
    rules, cache = configure(root, "OFF")
    assert COMPARED not in rules and COMPILED not in rules, "the toolkit is used"
    assert "MESHC_CUDA_INCLUDE" not in cache and "MESHC_CUDA_HEADERS" not in cache, cache
    # What is built beside those tests is the same.
    assert "meshc_cuda_tests" in rules and "meshc_abi_tests" in rules

    rules, cache = configure(root, "ON")
    found = {}
    for line in cache.splitlines():
        name, _, value = line.partition("=")
        found[name.partition(":")[0]] = value
    for variable, header in (("MESHC_CUDA_HEADERS", "cublasLt.h"),
                             ("MESHC_NCCL_HEADERS", "nccl.h")):
        folder = found[variable]
        if not os.path.exists(os.path.join(folder, header)):
            print(f"no {header} on this machine: its declarations are not compared")
            assert COMPARED not in rules
            return
    assert COMPARED in rules


main()
