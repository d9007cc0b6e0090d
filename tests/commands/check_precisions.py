"""Does what the table of precisions in frontend/README.md says: every operation that
it names is lowered to bf16 beside operands of every kind, and has the widths of its
row."""

import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

# How an operation of the table is written with operands a and b, and what it becomes.
OPERATIONS = {
    "einsum": ("einsum(a, b -> p)", "einsum"),
    "sum": ("sum(a, over = q)", "reduce sum"),
    "mean": ("mean(a, over = q)", "reduce mean"),
    "max": ("max(a, over = q)", "reduce max"),
    "min": ("min(a, over = q)", "reduce min"),
    "^": ("a ^ b", "pow"),
    "/": ("a / b", "div"),
    "+": ("a + b", "add"),
    "-": ("a - b", "sub"),
    "*": ("a * b", "mul"),
    "comparisons": ("a < b", "compare"),
    "where": ("where(c, a, b)", "select"),
    "minimum": ("minimum(a, b)", "minimum"),
    "maximum": ("maximum(a, b)", "maximum"),
    "gather": ("gather(a, i, over = q)", "gather"),
    "broadcast": ("broadcast(a, z)", "broadcast"),
    "rename": ("rename(a, q -> r)", "rename"),
    "let": ("a", "reshard"),  # with a rule of the layout for its name
    **{name: (f"{name}(a)", name) for name in (
        "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "erf_inv", "logistic", "sin",
        "cos", "abs", "sign", "stop_gradient")},
}

# What an operand can be, and whether it was computed in f32; `wide` is a function.
KINDS = {
    "parameter": ("w", False),
    "input": ("x", False),
    "16 bits": ("einsum(y, t -> p, q)", False),
    "f32": ("wide(x)", True),
}

# What a cell of the table says of the widths of operands, given for each whether it
# was computed in f32 and whether f32 operations alone read the result.
RULES = {
    "16 bits": lambda wide: "narrow",
    "f32": lambda wide: "wide",
    "f32 if one of them was computed in f32, else 16 bits":
        lambda wide: "wide" if any(wide) else "narrow",
    "as they are": lambda wide: "kept",
    "as they are, but parameters and inputs 16 bits where these are read":
        lambda wide: "wide" if any(wide) else "narrow",
}

SPEC = """mesh m = 2
layout {{ {rule} }}
dim p = 2
dim q = 3
dim r = q
dim k = 5
dim z = 7
model test(x: f32[p, q], y: f32[p, k], c: bool[p, q], i: i32[p]) {{
  param w: f32[p, q] = ones
  param t: f32[k, q] = ones
  param s: f32[z] = ones
  let a = {a}
  let b = {b}
  let result = {operation}
  output o = {reader}
}}
"""


def read_table(readme):
    """Names and cells of each row."""
    rows = []
    lines = readme.read_text(encoding="utf-8").split("\n")
    start = lines.index("| | operands | computed in | result |")
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2:]):
        names, operands, _, result = (cell.strip() for cell in line[1:-1].split("|"))
        found = re.findall(r"`([^`]+)`", names)
        if "comparisons" in names:
            found.append("comparisons")
        if names.startswith("the same"):
            found = rows[-1][0]
        rows.append((found, names.startswith("the same"), operands, result))
    assert sum(len(row[0]) for row in rows) >= len(OPERATIONS), rows
    return rows


class Lowering:
    def __init__(self, meshc):
        self.meshc = pathlib.Path(meshc).absolute()
        self.folder = tempfile.TemporaryDirectory(prefix="meshc-")

    def run(self, program, *arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout

    def lower(self, spec, mnemonic):
        """The types of operands and result of the only such operation."""
        path = f"{self.folder.name}/test.mesh"
        pathlib.Path(path).write_text(spec, encoding="utf-8")
        self.run(self.meshc, "compile", path, "--precision", "bf16", "--emit", "nd",
                 "-o", path + ".nd")
        text = self.run(self.meshc.with_name("meshc-opt"), path + ".nd",
                        "-nd-lower-precision", "-cse")
        lines = [line for line in text.split("\n") if f"= nd.{mnemonic} " in line]
        assert len(lines) == 1, (mnemonic, text)
        types = lines[0].split(" : ", 1)[1]
        operands, result = types.rsplit(" -> ", 1)
        return [name for name in re.findall(r"![^,()]+", operands)
                if not name.endswith(("_i1", "_i32"))], result


def width(name):
    return "narrow" if "bf16" in name else "wide"


def check(lowering, name, is_read_wide, operands, result):
    operation, mnemonic = OPERATIONS[name]
    wide_reader = "exp(result)" if name != "exp" else "log(result)"
    reader = wide_reader if is_read_wide or name == "einsum" else \
        "einsum(result, s, over = z)"
    if name == "comparisons":
        reader = "result"
    if name == "broadcast":
        reader = "einsum(result, s -> p, q)"
    function = "tanh" if name != "tanh" else "erf"
    kinds = dict(KINDS)
    if name == "einsum":
        del kinds["16 bits"]
    uses_b = re.search(r"\bb\b", operation)
    for first, second in itertools.product(kinds, kinds if uses_b else ["input"]):
        values = [kinds[first], kinds[second]]
        a, b = (value.replace("wide", function) for value, _ in values)
        spec = SPEC.format(a=a, b=b, operation=operation, reader=reader,
                           rule='"result": p -> m' if name == "let" else "")
        found, given = lowering.lower(spec, mnemonic)
        wide = [is_wide for _, is_wide in values[:2 if uses_b else 1]]
        where = f"{name} of {first}" + (f" and {second}" if uses_b else "")
        expected = RULES[operands](wide)
        if expected == "kept":
            # Not narrowed beside it: memory holds parameters and inputs in f32.
            expected = "narrow" if first == "16 bits" else "wide"
        for operand in found:
            if width(operand) != expected:
                yield f"{where}: an operand is {operand}, the table says {expected}"
        if name == "comparisons":
            continue
        if result.startswith("f32"):
            expected = "wide"
        elif result.startswith("16 bits"):
            expected = "narrow"
        if width(given) != expected:
            yield f"{where}: the result is {given}, the table says {expected}"


def main():
    lowering = Lowering(sys.argv[1])
    problems = []
    for names, is_read_wide, operands, result in read_table(
            pathlib.Path(sys.argv[2]) / "frontend" / "README.md"):
        for name in names:
            if name in ("uniform", "normal", "truncated_normal"):
                continue  # draws in f32, of no operand that could be narrow
            problems += check(lowering, name, is_read_wide, operands, result)
    if problems:
        sys.exit("\n".join(problems))


main()
