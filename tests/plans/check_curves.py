"""The loss curve of a training run does not depend on mesh and layout."""

import sys

import compiler
import curves

# The eight layouts of the multi-layer perceptron, over meshes of all shapes, and
# dimensions over several axes in both orders.
MLP_LAYOUTS = [
    ("", ""),
    ("a=8", "batch=a"), ("a=8", "hidden=a"), ("a=8", "pixel=a"),
    ("a=2,b=2", ""), ("a=2,b=2", "batch=a,hidden=b"), ("a=2,b=2", "batch=a,pixel=b"),
    ("a=2,b=2", "hidden=a,pixel=b"), ("a=2,b=2", "batch=b+a"),
    ("a=2,b=3", "batch=a,hidden=b"), ("a=2,b=3", "batch=b,pixel=a"),
    ("a=2,b=3", "hidden=b,pixel=a"), ("a=2,b=3", "hidden=a+b"),
    ("a=2,b=2,c=2", "batch=a,hidden=b,pixel=c"), ("a=2,b=2,c=2", "batch=c+a,hidden=b"),
]

BLOCK_LAYOUTS = [
    ("", ""),
    ("a=2", "key_pos=a"), ("a=2", "d_model=a"), ("a=2", "pos=a"), ("a=2", "d_head=a"),
    ("a=2,b=2", "batch=a,heads=b,d_ff=b"), ("a=2,b=3", "batch=b,d_model=a"),
    ("a=2,b=3", "batch=a+b"), ("a=2,b=3", "heads=b,d_ff=b+a"),
    ("a=2,b=3", "key_pos=b,d_head=a"), ("a=8", "batch=a"),
    ("a=2,b=2,c=2", "batch=a,heads=b,d_ff=c"),
]


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    curves.write_data(meshc.folder.name, side=3, classes=5)
    problems = []
    for sizes in ({"batch": 16, "pixel": 9, "hidden": 8, "class": 5},
                  {"batch": 10, "pixel": 9, "hidden": 7, "class": 5}):
        model = curves.make_classifier(meshc, sizes)
        for mesh, layout in MLP_LAYOUTS:
            problems += model.compare(mesh, layout)
    model = curves.make_blocks(meshc)
    for mesh, layout in BLOCK_LAYOUTS:
        problems += model.compare(mesh, layout)
    if problems:
        sys.exit("\n".join(problems))


main()
