"""What the cases use: runs meshc on small specs, and compares numbers."""

import collections
import dataclasses
import itertools
import json
import math
import os
import random
import subprocess
import tempfile

import compiler
import copies
import npy

# Sums here have a hundred terms or so, of which each may round by 2^-24; relative to the
# largest number of an array, or to 0.1.
TOLERANCE = 1e-5

# Where thousands of small arrays are written faster than on a disk, if the machine has it.
MEMORY = "/dev/shm"


# Sends nothing, and has no name that another spec has.
QUIET = """
dim quiet = 2
model nothing(silent: f32[quiet]) { output still = silent + 1 }
"""


@dataclasses.dataclass
class Asked:
    """An evaluation that a case asks for, or a plan: `told` is what comes of it, later."""

    case: str
    text: str
    mesh: str | None = None
    layout: str = ""
    options: dict = dataclasses.field(default_factory=dict)
    random_numbers: bool = False  # that it draws some
    told: object = None
    failure: str = ""

    def get(self):
        if self.failure:
            raise SystemExit(self.failure)
        return self.told

    def key(self):
        """What evaluations of one program have in common. What trains is a step, whose gradients
        are of what it minimizes; those of the rest are of what a flag names."""
        mesh = copies.mesh_of(self.text) if self.mesh is None else self.mesh
        return mesh, tuple(self.options.get("flags", ())), copies.trains(self.text)


class Compared:
    """What `plan --compare` says of a plan: what it sends, and where dims lie."""

    def __init__(self, told, number):
        self.dims = told["plans"][number]["dims"]
        self.lies = {value["name"]: value["splits"][number]["dims"] for value in told["values"]
                     if value["splits"][number]}
        self.wire_bytes, count = (next(
            entry["numbers"][number] for entry in told["quantities"]
            if entry["name"] == name and not entry["part"])
            for name in ("wire_bytes_per_device", "collectives"))
        # Not in order; of elements of four bytes.
        self.sent = [(entry["kind"], "+".join(sorted(entry["axes"])), one["payload_bytes"] // 4)
                     for entry in told["collectives"] for one in entry["plans"][number]
                     for _ in range(one["count"])]
        assert len(self.sent) == count, (self.sent, count)


class Harness:
    """Runs meshc, and collects what is wrong in the case that runs.

    What a case asks for is computed once all cases have asked, so that evaluations on one mesh
    are copies in one program, and plans are compared at once."""

    def __init__(self, meshc, root):
        self.meshc = compiler.Compiler(meshc, root)
        self.arrays = tempfile.TemporaryDirectory(
            prefix="meshc-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.case = ""
        self.problems = []
        self.asked, self.asked_plans, self.checks = [], [], []
        self.count = itertools.count()
        self.files = {}

    # Specs, arrays, flags.

    def path(self, suffix):
        return f"{self.meshc.folder.name}/{next(self.count)}{suffix}"

    def array_path(self):
        return f"{self.arrays.name}/{next(self.count)}.npy"

    def write(self, text):
        """One file for one text, so that meshc finds the program of it again."""
        if text not in self.files:
            self.files[text] = self.path(".mesh")
            with open(self.files[text], "w", encoding="utf-8") as file:
                file.write(text)
        return self.files[text]

    @staticmethod
    def place(mesh, layout):
        return [] if mesh is None else ["--mesh", mesh, "--layout", layout]

    def run(self, text, arrays=(), outputs=(), *, params=(), grads=(), mesh=None, layout="",
            flags=(), integers=()):
        """Values of an evaluation by name; those of gradients as "grad NAME". `arrays` and
        `params` have name: (values, shape). Without a mesh those of the spec hold. Outputs
        of `integers` are i32."""
        arguments = ["run", self.write(text), *self.place(mesh, layout), "--eval", *flags]
        for option, given in (("--in", dict(arrays)), ("--param", dict(params))):
            for name, (values, shape) in given.items():
                file = self.array_path()
                whole = all(isinstance(value, int) for value in values)
                npy.write(file, values, shape, "i" if whole else "f")
                arguments += [option, f"{name}={file}"]
        files = {}
        for option, prefix, names in (("--out", "", outputs), ("--grad", "grad ", grads)):
            for name in names:
                files[prefix + name] = self.array_path()
                arguments += [option, f"{name}={files[prefix + name]}"]
        self.meshc.run(*arguments)
        return {name: self.read(file, name in integers) for name, file in files.items()}

    @staticmethod
    def read(file, whole=False):
        data = npy.read_bytes(file)
        os.unlink(file)
        return list(memoryview(data).cast("i" if whole else "f"))

    def plan(self, text, mesh=None, layout="", *flags):
        return self.meshc.plan(self.write(text), *self.place(mesh, layout), *flags)

    def text(self, command, text, *flags):
        return self.meshc.run(command, self.write(text), *flags)

    def error(self, text, *flags):
        """The code of the first error of `meshc plan`; that, or what happened instead."""
        found = self.errors(text, *flags)
        return found[0] if isinstance(found, list) else found

    def errors(self, text, *flags):
        """The codes of all errors."""
        done = subprocess.run([self.meshc.meshc, "plan", self.write(text), *flags],
                              cwd=self.meshc.root, env=self.meshc.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != 1 or "error[" not in done.stderr:
            return f"exit code {done.returncode}"
        return [part.split("]")[0] for part in done.stderr.split("error[")[1:]]

    # What is computed later.

    def ask(self, text, arrays=(), outputs=(), *, mesh=None, layout=None, random_numbers=False,
            **options):
        """As run(), later: get() of it has the values."""
        asked = Asked(self.case, text, mesh, layout, dict(options, arrays=dict(arrays),
                                                          outputs=outputs), random_numbers)
        self.asked.append(asked)
        return asked

    def ask_plan(self, text, mesh=None, layout=""):
        """What plan() says without regard to order and phases, later, in a quarter of the time."""
        asked = Asked(self.case, text if mesh is None else copies.place(text, mesh, layout))
        self.asked_plans.append(asked)
        return asked

    def later(self, check):
        """Runs the rest of a case once all that is asked for is there."""
        self.checks.append((self.case, check))

    def compute(self):
        """All that is asked for, together; what fails together again for each case alone."""
        groups = collections.defaultdict(list)
        for asked in self.asked:
            groups[asked.key()].append(asked)
        for group in groups.values():
            self.compute_apart(group, self.evaluate)
        if self.asked_plans:
            self.compute_apart(self.asked_plans, self.compare)

    @staticmethod
    def compute_apart(group, compute):
        """The group, or if that fails what each case has of it, or if that does not none of it."""
        try:
            compute(group)
            return
        except SystemExit as problem:
            together = str(problem)
        for case in dict.fromkeys(asked.case for asked in group):
            alone = [asked for asked in group if asked.case == case]
            try:
                compute(alone)
            except SystemExit as problem:
                for asked in alone:
                    asked.failure = str(problem)
        if not any(asked.failure for asked in group):
            for asked in group:
                asked.failure = together

    def evaluate(self, group):
        """Each of the group, with what key() says in common, in one program."""
        if len(group) == 1 and not group[0].random_numbers:
            asked, = group
            asked.told = self.run(asked.text, mesh=asked.mesh, layout=asked.layout or "",
                                  **asked.options)
            return
        mesh, flags, training = group[0].key()
        # Random numbers depend on names: the second copy of a case has the same on all meshes.
        counts = collections.defaultdict(itertools.count)
        tags = [f"{asked.case.replace('-', '_')}_{next(counts[asked.case])}" for asked in group]
        text, layout = copies.write([(tag, asked.text, asked.layout)
                                     for tag, asked in zip(tags, group)])
        given = {option: {copies.mark(name, tag): array for tag, asked in zip(tags, group)
                          for name, array in asked.options.get(option, {}).items()}
                 for option in ("arrays", "params")}
        names = {option: [copies.mark(name, tag) for tag, asked in zip(tags, group)
                          for name in asked.options.get(option, ())]
                 for option in ("outputs", "grads", "integers")}
        if names["grads"] and not training:
            flags = (*flags, "--of", "total")
        found = self.run(text, mesh=mesh, layout=layout, flags=flags, **given, **names)
        for tag, asked in zip(tags, group):
            outputs, grads = (asked.options.get(option, ()) for option in ("outputs", "grads"))
            asked.told = {name: found[copies.mark(name, tag)]
                          for name in (*outputs, *(f"grad {name}" for name in grads))}

    def compare(self, group):
        """What differs from a plan that sends nothing is all that is sent."""
        specs = [self.write(text) for text in (QUIET, *(asked.text for asked in group))]
        try:
            told = json.loads(self.meshc.run("plan", "--emit", "json", "--compare", *specs))
        except SystemExit:
            for asked in group:  # what is wrong with a spec is told in short by its own plan
                self.plan(asked.text)
            raise
        for number, asked in enumerate(group, 1):
            asked.told = Compared(told, number)

    # Expectations.

    def expect(self, found, expected, what):
        if found != expected:
            self.problems.append(f"{what}: {shorten(found)}, expected {shorten(expected)}")

    def expect_at_most(self, found, most, what):
        if not found <= most:
            self.problems.append(f"{what}: {found}, expected {most} at most")

    def expect_close(self, found, expected, what, tolerance=TOLERANCE):
        """Arrays of floats, by the largest magnitude of what is expected."""
        if len(found) != len(expected):
            self.problems.append(f"{what}: {len(found)} numbers, expected {len(expected)}")
            return
        bound = tolerance * max([abs(value) for value in expected] + [0.1])
        for place, (one, other) in enumerate(zip(found, expected)):
            if not (abs(one - other) <= bound or one == other):
                self.problems.append(f"{what}: element {place} is {one:.7g}, expected "
                                     f"{other:.7g} +- {bound:.1g}")
                return

    def expect_values(self, found, expected, what, tolerance=TOLERANCE):
        for name, values in expected.items():
            self.expect_close(found[name], values, f"{what}, {name}", tolerance)

    def expect_same(self, text, layouts, arrays=(), outputs=(), expected=(), *, tolerance=TOLERANCE,
                    random_numbers=False, **options):
        """Values of `expected` without a mesh and under each of the layouts, (mesh, layout), and
        those without a mesh of everything else. Returns what has those, later. The second layout
        of a mesh has random numbers of its own, those of a second copy without a mesh."""
        options["random_numbers"] = random_numbers
        most = max(collections.Counter(mesh for mesh, _ in layouts).values())
        wholes = [self.ask(text, arrays, outputs, mesh="", layout="", **options)
                  for _ in range(most if random_numbers else 1)]
        found = [(place, self.ask(text, arrays, outputs, mesh=place[0], layout=place[1], **options))
                 for place in layouts]

        def check():
            for whole in wholes:
                self.expect_values(whole.get(), dict(expected), "one device", tolerance)
            count = collections.Counter()
            for (mesh, layout), asked in found:
                whole = wholes[count[mesh] % len(wholes)].get()
                count[mesh] += 1
                self.expect_values(asked.get(), {**whole, **dict(expected)}, f"{mesh}, {layout}",
                                   tolerance)

        self.later(check)
        return wholes[0]


def shorten(value):
    text = str(value)
    return text if len(text) <= 400 else text[:400] + " ..."


def draw(name, shape, low=-1.0, high=1.0):
    """Random numbers, the same for one name; with their shape."""
    numbers = random.Random(name)
    return [round(numbers.uniform(low, high), 4) for _ in range(math.prod(shape))], list(shape)


def positions(shape):
    """All positions of an array in row-major order."""
    return itertools.product(*(range(size) for size in shape))


class Array:
    """An array of any dims for plain loops."""

    def __init__(self, values, shape):
        self.values, self.shape = list(values), list(shape)

    def __getitem__(self, place):
        at = 0
        for index, size in zip(place, self.shape, strict=True):
            if not 0 <= index < size:
                return 0.0
            at = at * size + index
        return self.values[at]


def make(shape, function):
    """The values of an array, element by element."""
    return [function(*place) for place in positions(shape)]


def sent(plan, *phases):
    """What the plan sends: (kind, axes, payload in elements), of these phases or of all; in
    order, but not of one that is compared."""
    if isinstance(plan, Compared):
        return plan.sent
    return [(entry["kind"], "+".join(sorted(entry["axes"])),
             entry["repeat"] * entry["payload_elements"])
            for entry in plan["collectives"] if not phases or entry["phase"] in phases]


def added_up(plan, *phases):
    """Payload elements by kind and axes."""
    total = collections.Counter()
    for kind, axes, count in sent(plan, *phases):
        total[kind, axes] += count
    return dict(total)


def wire_bytes(plan):
    if isinstance(plan, Compared):
        return plan.wire_bytes
    return sum(entry["repeat"] * entry["wire_bytes_per_device"] for entry in plan["collectives"])


def tensor(plan, name):
    """The value of this name; of a parameter and its gradient the former."""
    return next(entry for entry in plan["tensors"] if entry["name"] == name)


def held(plan, name):
    """How a value lies: dim: (axes, positions on a device)."""
    dims = plan.lies[name] if isinstance(plan, Compared) else tensor(plan, name)["dims"]
    return {dim["name"]: (dim["axes"], dim["local_size"]) for dim in dims}


def folder_of(harness):
    path = harness.path("")
    os.mkdir(path)
    return path
