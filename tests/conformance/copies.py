"""Copies of small specs in one program, each with dims and a layout of its own: to compile and
to start a program takes longer than what a small one adds."""

import re

MESH = re.compile(r"^mesh (.*)\n", re.M)
LAYOUT = re.compile(r"^layout \{(.*?)\}\n", re.M | re.S)
DIM = re.compile(r"^dim (\w+)", re.M)
# Inputs, and what is computed.
VALUE = re.compile(r"(\w+): [fi]32\[|\blet (\w+)|\boutput (\w+)|\bfor (\w+) in")
PARAMETERS = re.compile(r"\bparam ([\w, ]+): ")
MODEL = re.compile(r"^model \w+\((.*)\) \{\n(.*?)\n\}$", re.M | re.S)
WORD = re.compile(r"(?<![\w.])(as )?([A-Za-z_]\w*)")
# Dims of a rule, which are no axes.
RULE_WORD = re.compile(r"(?<!-> )\b[A-Za-z_]\w*(?![\w, ]*\))")


class Spec:
    """The parts of a spec with one model, each of whose dims has a line of its own."""

    def __init__(self, text):
        text = re.sub(r" *//.*\n", "\n", text)
        self.inputs, self.body = MODEL.search(text).groups()
        self.dims = re.findall(r"^dim .*", text, re.M)
        layout = LAYOUT.search(text)
        self.layout = ", ".join(re.split(r"  +|\s*\n\s*", layout[1].strip())) if layout else ""
        train = text.find("\ntrain {")
        self.train = text[train + 1:].strip() if train >= 0 else ""
        self.dim_names = set(DIM.findall(text))
        self.names = self.dim_names | {name for found in VALUE.findall(text) for name in found}
        for found in PARAMETERS.findall(text):
            self.names.update(found.split(", "))
        self.has_loss = "output loss" in text


def mesh_of(text):
    """The mesh of a spec, as the command line has it."""
    found = MESH.search(text)
    return found[1].replace(" ", "") if found else ""


def trains(text):
    return "\ntrain {" in text


def mark(name, tag):
    """The name of a value of a copy: `norm/gain` is in the call `norm_TAG`."""
    first, *rest = name.split("/")
    return "/".join([f"{first}_{tag}", *rest])


def rename(text, names, tag):
    """Each of the names with the tag of the copy, and what calls are known `as`."""
    return WORD.sub(lambda found: f"{found[0]}_{tag}" if found[1] or found[2] in names
                    else found[0], text)


def write_arrows(layout):
    """A layout as specs have it, whatever it is written with."""
    if not layout or "->" in layout:
        return layout
    rules = (rule.split("=") for rule in layout.split(","))
    return ", ".join(f"{dim} -> ({axes.replace('+', ', ')})" for dim, axes in rules)


def write_rules(layout, names, tag):
    """The layout of a copy."""
    return RULE_WORD.sub(lambda found: f"{found[0]}_{tag}" if found[0] in names else found[0],
                         write_arrows(layout))


def place(text, mesh, layout):
    """The spec with this mesh and layout in place of its own."""
    text = MESH.sub("", LAYOUT.sub("", text))
    return f"mesh {mesh}\nlayout {{ {write_arrows(layout)} }}\n{text}"


def write(copies):
    """A spec with a copy of the text of each (tag, text, layout), and the layout of all of it;
    without one a copy has that of its text. The output `total` is the sum of their losses, whose
    gradients are those of each."""
    dims, inputs, bodies, rules, losses, train = [], [], [], [], [], ""
    for tag, text, layout in copies:
        spec = Spec(text)
        dims += [rename(line, spec.dim_names, tag) for line in spec.dims]
        inputs.append(rename(spec.inputs, spec.names, tag))
        bodies.append(rename(spec.body, spec.names, tag))
        rules.append(write_rules(spec.layout if layout is None else layout, spec.dim_names, tag))
        losses += [f"loss_{tag}"] if spec.has_loss else []
        train = train or re.sub(r"minimize +loss", "minimize total", spec.train)
    if losses:
        bodies.append(f"  output total = {' + '.join(losses)}")
    lines = [*dims, f"model copies({', '.join(inputs)}) {{", *bodies, "}", train]
    return "\n".join(lines) + "\n", ", ".join(rule for rule in rules if rule)
