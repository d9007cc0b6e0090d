"""Compiles what gpu_run.py measures: gpu_cases.py MESHC FOLDER [ARCHITECTURES].

Trainings on meshes of 1, 2, 4 and 8 devices for GPUs, and for the CPU as the
reference of their losses; kernels over large tensors. A list of all goes to
FOLDER/cases.json.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

MESHES = [("data=1", ""), ("data=2", "batch=data"), ("data=2,model=2", "batch=data,{model}=model"),
          ("data=4,model=2", "batch=data,{model}=model")]

TRAININGS = [
    # name, spec, dimension that the second axis splits, sizes
    ("mlp", "samples/mlp.mesh", "hidden", {}),
    ("blocks", "samples/transformer_block.mesh", "heads", {}),
]

KERNELS = [("rows of 1024", {"rows": 65536, "columns": 1024}),
           ("rows of 8192", {"rows": 8192, "columns": 8192}),
           ("rows of 32768", {"rows": 2048, "columns": 32768})]


def main():
    meshc, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    architectures = sys.argv[3] if len(sys.argv) > 3 else "sm_80,sm_90"
    folder.mkdir(parents=True, exist_ok=True)
    cases = []

    def compile_case(kind, name, spec, mesh, layout, sizes, target):
        path = folder / f"{len(cases):02}-{target}"
        flags = ["--target", "cuda", "--gpu", architectures] if target == "cuda" else \
            ["--cpu", "x86-64-v3"]
        subprocess.run(
            [meshc, "compile", ROOT / spec, "--mesh", mesh, "--layout", layout, *flags,
             *(f"-D{key}={value}" for key, value in sizes.items()), "-o", path], check=True)
        return path.name

    for name, spec, split, sizes in TRAININGS:
        for mesh, rule in MESHES:
            layout = rule.format(model=split)
            case = {"kind": "training", "name": name, "mesh": mesh, "layout": layout}
            for target in ("cuda", "cpu"):
                case[target] = compile_case("training", name, spec, mesh, layout, sizes, target)
            cases.append(case)
    for name, sizes in KERNELS:
        case = {"kind": "kernels", "name": name}
        case["cuda"] = compile_case("kernels", name, "bench/row_kernels.mesh", "data=1", "",
                                    sizes, "cuda")
        cases.append(case)
    (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")


main()
