"""What is measured: three programs under four layouts, with the goals."""

import dataclasses

DEVICES = 8


@dataclasses.dataclass(frozen=True)
class Layout:
    name: str
    mesh: dict  # axis -> size, major to minor

    @property
    def mesh_option(self):
        return ",".join(f"{axis}={size}" for axis, size in self.mesh.items())


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    spec: str  # below the repository
    splits: dict  # axis -> dims that are split over it
    goals: dict  # layout name -> JAX's time divided by ours
    steps: int  # of one measurement

    def layout_option(self, layout):
        """The rules for the axes that the mesh has and that are larger than 1."""
        return ",".join(f"{dim}={axis}" for axis, size in layout.mesh.items()
                        if size > 1 for dim in self.splits[axis])


LAYOUTS = [
    Layout("one device", {"data": 1, "model": 1}),
    Layout("data=8", {"data": 8, "model": 1}),
    Layout("model=8", {"data": 1, "model": 8}),
    Layout("data=4,model=2", {"data": 4, "model": 2}),
]

PROGRAMS = [
    Program(
        name="mlp",
        spec="bench/mlp4096.mesh",
        splits={"data": ["batch"], "model": ["hidden1"]},
        goals={"one device": 1.1, "data=8": 2.5, "model=8": 1.2, "data=4,model=2": 2.0},
        steps=10),
    Program(
        name="blocks",
        spec="samples/transformer_block.mesh",
        splits={"data": ["batch"], "model": ["heads", "d_ff"]},
        goals={"one device": 2.2, "data=8": 2.0, "model=8": 2.5, "data=4,model=2": 2.0},
        steps=5),
    Program(
        name="residual",
        spec="bench/residual.mesh",
        splits={"data": ["batch"], "model": ["y"]},
        goals={"one device": 3.6, "data=8": 1.0, "model=8": 1.3, "data=4,model=2": 1.2},
        steps=10),
]
