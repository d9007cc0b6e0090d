"""Where memory is free, no command that computes waits because its result lies where a transfer's
buffer is: of steps predicted for H100s under random tables, the time for which one stands still
though all that it reads is there.

Arguments: meshc, the repository, and how many random tables (8).
"""

import random
import subprocess
import sys

import compiler

SPEC = "samples/layouts/decoder.mesh"
SIZES = {"batch": 512, "pos": 128, "d": 1024, "heads": 16, "d_head": 64, "d_ff": 4096}
MESHES = ["data=8", "data=4,model=2", "model=8,data=2", "data=16,model=4"]
RULES = ["batch -> data", "(heads, d_ff) -> model", "d_ff -> model", "state: * -> data",
         "gradients: * -> data", "params: * -> data", "d -> data unless batch",
         "pos -> model unless (heads, d_ff)", "params: * -> model"]
MOST = 0.01


def draw_layout(draws, mesh):
    axes = {axis.split("=")[0] for axis in mesh.split(",")}
    rules = [rule for rule in RULES if rule.split("-> ")[1].split()[0] in axes]
    chosen = [rule for rule in rules if draws.random() < 0.4]
    # Two rules of one kind contradict each other.
    kept = {}
    for rule in chosen:
        kept.setdefault(rule.split(" ->")[0].replace("(heads, d_ff)", "d_ff"), rule)
    return ", ".join(kept.values())


def find_waits(plan):
    """Microseconds for which what computes stands still though all that it reads is there."""
    items = {item["id"]: (item, item["inputs"], item["outputs"]) for item in plan["ops"]}
    members = {entry["id"]: entry for entry in plan["collectives"]}
    for transfer in plan["transfers"]:
        sent = [members[member] for member in transfer["collectives"]]
        items[transfer["id"]] = (transfer, [name for entry in sent for name in entry["inputs"]],
                                 [name for entry in sent for name in entry["outputs"]])
    there, free, waited = {}, 0.0, 0.0
    for name in plan["schedule"]:
        item, inputs, outputs = items[name]
        end = item["start_us"] + item["time_us"]
        if "collectives" not in item:
            waited += item["start_us"] - max([free] + [there.get(read, 0.0) for read in inputs])
            free = end
        for written in outputs:
            there[written] = end
    return waited


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    sizes = [f"-D{name}={size}" for name, size in SIZES.items()]
    played, worst, problems = 0, 0.0, []
    for number in range(count):
        draws = random.Random(number)
        mesh = draws.choice(MESHES)
        layout = draw_layout(draws, mesh)
        arguments = [SPEC, *sizes, "--mesh", mesh, "--layout", layout]
        # Rules may fight, which is told by other tests.
        if subprocess.run([meshc.meshc, "check", *arguments], cwd=meshc.root, check=False,
                          capture_output=True).returncode != 0:
            continue
        plan = meshc.plan(*arguments, "--machine", "h100")
        played += 1
        part = find_waits(plan) / plan["totals"]["step_us"]
        worst = max(worst, part)
        if part > MOST:
            problems.append(f"--mesh {mesh} --layout '{layout}': {part:.1%} of a step waits for memory")
    print(f"{played} of {count} tables are legal: {worst:.2%} of a step waits for memory at most")
    if problems or played < count / 2:
        sys.exit("\n".join(problems) or "too few tables")


main()
