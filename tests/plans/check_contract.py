"""Holds the JSON of every case against the contract of the plan: which fields
there are, their types, and what has to agree with what."""

import collections
import hashlib
import json
import math
import re
import sys
import tempfile

import cases
import compiler
import gpt3

NUMBER = (int, float)
ELEMENT_BYTES = {"f32": 4, "i32": 4, "bf16": 2, "f16": 2, "f64": 8, "i64": 8, "boolean": 1,
                 "u8": 1, "i8": 1, "i16": 2}
SCALARS = {"text": str, "integer": int, "number": NUMBER, "boolean": bool}
FIELD = re.compile(r"\| `(\w+)` \| ([^|]+) \|.*\|$")


def read_contract(path):
    """The tables of FIELDS.md: by object, its fields with their types."""
    objects, fields = {}, None
    with open(path, encoding="utf-8") as page:
        for line in page:
            if line.startswith("## "):
                fields = objects.setdefault(line[3:].strip(), {})
            elif found := FIELD.match(line.strip()):
                name, type_name = found.group(1), found.group(2).strip()
                optional = type_name.removesuffix(", optional") != type_name
                fields[name + "?" * optional] = type_name.removesuffix(", optional")

    def resolve(type_name):
        if type_name.startswith("one of "):
            return set(type_name.removeprefix("one of ").split(", "))
        if type_name.startswith("list of "):
            return [resolve(type_name.removeprefix("list of "))]
        if type_name.endswith(" or null"):
            return Nullable(resolve(type_name.removesuffix(" or null")))
        if type_name in SCALARS:
            return SCALARS[type_name]
        if type_name not in resolved:
            resolved[type_name] = {}
            resolved[type_name].update({name: resolve(inner)
                                        for name, inner in objects[type_name].items()})
        return resolved[type_name]

    resolved = {}
    contract = resolve("plan")
    unused = objects.keys() - resolved.keys()
    if unused:
        sys.exit(f"{path}: nothing is of {', '.join(sorted(unused))}")
    return contract


class Nullable:
    def __init__(self, contract):
        self.contract = contract


# What the cases have none of: windows, a machine without units for bf16, waste, rules that
# do not hold, rules for values.
OTHERS = [
    ["samples/layouts/data.mesh", "--layout", 'batch -> data, "b1/attn/q": batch -> ()'],
    ["samples/layouts/zero3.mesh", "--mesh", "data=3"],
    ["samples/convnet.mesh", "--mesh", "data=2,rows=3"],
    [cases.BLOCKS, "--precision", "bf16", "--machine", "v100"],
    [cases.MLP, "--mesh", "data=3,model=1", "--memory", "1GiB"],
    ["tests/recipes/accumulated.mesh", "--machine", "h100"],
]
SMALL_GPT = ["--mesh", "data=2,model=2", "--precision", "bf16", *[f"-D{name}={size}" for name, size in {
    "layers": 3, "batch": 4, "pos": 16, "d_model": 32, "heads": 4, "vocab": 64}.items()]]

# Held in full, as the cases are.
ADDED = [
    # What is added to products on GPUs: copies, sums and zeros.
    ["samples/convnet.mesh", "--target", "cuda", "--precision", "bf16"],
    # Kernels that the backward phase computes again from nothing.
    ["tests/plans/rotary.mesh"],
    ["tests/plans/rotary.mesh", "--target", "cuda"],
    # Kernels of the forward phase that read what others computed for the backward phase.
    ["bench/gru.mesh", "--precision", "bf16"],
]


def violations(value, contract, place, seen):
    """What of the value is not as the contract says; adds the fields there are to `seen`."""
    if isinstance(contract, Nullable):
        return [] if value is None else violations(value, contract.contract, place, seen)
    if isinstance(contract, dict):
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        names = {name.rstrip("?") for name in contract}
        found = [f"{place} has {name}" for name in value.keys() - names]
        for name, inner in contract.items():
            if name.rstrip("?") in value:
                seen.add((id(contract), name))
                found += violations(value[name.rstrip("?")], inner,
                                    f"{place}.{name.rstrip('?')}", seen)
            elif not name.endswith("?"):
                found.append(f"{place} has no {name}")
        return found
    if isinstance(contract, list):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [text for index, entry in enumerate(value)
                for text in violations(entry, contract[0], f"{place}[{index}]", seen)]
    if isinstance(contract, set):
        return [] if value in contract else [f"{place} is {value!r}"]
    if not isinstance(value, contract) or isinstance(value, bool) != (contract is bool):
        return [f"{place} is {value!r}"]
    return []


def find_unlike_folds(plan):
    """Values and commands that are not what stands for them."""
    same = {"tensors": ("role", "dims", "dtype", "bytes_per_device"),
            "ops": ("kind", "phase"),
            "collectives": ("kind", "axes", "phase", "payload_bytes")}
    scopes = {scope["id"]: scope["name"] for scope in plan["scopes"]}
    found = []

    def get_name(entry):
        """The name without its scope."""
        return entry.get("name", "").replace(scopes.get(entry["scope"], "/") + "/", "", 1)

    for kind, fields in same.items():
        entries = {entry["id"]: entry for entry in plan[kind]}
        for entry in plan[kind]:
            first = entries.get(entry["fold"])
            if not first or first["fold"] != first["id"] or \
                    any(first[field] != entry[field] for field in fields) or \
                    get_name(entry) != get_name(first) or \
                    (entry is not first and entry["scope"] == first["scope"]
                     # Two parts of one value, such as gradients of stacked layers.
                     and not (kind == "collectives"
                              and entry["tensor"] == first["tensor"])):
                found.append(f"{entry['id']} folds into {entry['fold']}")
    return found


def alive(memory, position):
    return sum(buffer["bytes"] for buffer in memory["buffers"]
               if buffer["first"] <= position <= buffer["last"])


def check_phases(plan, check):
    """The backward phase begins once the loss is there."""
    schedule = plan["schedule"]
    loss = {tensor["id"] for tensor in plan["tensors"] if tensor["name"] == "loss"}
    made = [schedule.index(op["id"]) for op in plan["ops"]
            if op["phase"] == "forward" and loss & set(op["outputs"])]
    phases = {entry["id"]: entry["phase"] for entry in plan["ops"]} | \
        {entry["transfer"]: entry["phase"] for entry in plan["collectives"]}
    early = [entry for entry in schedule[:max(made, default=0)] if phases[entry] == "backward"]
    check(not early, f"before the loss: {', '.join(early)}")


def check_buffers(plan, tensors, check):
    """What is plainly called after a value is no larger than that is on a device."""
    sizes = {}
    for tensor in plan["tensors"]:
        if not tensor["inside"]:
            sizes[tensor["name"]] = max(tensor["bytes_per_device"], sizes.get(tensor["name"], 0))
    for buffer in plan["memory"]["buffers"]:
        name, form, tensor = buffer["name"], buffer["form"], tensors.get(buffer["tensor"])
        check(form == "inside" if not name else
              not tensor or name == tensor["name"] or form != "itself" or tensor["inside"],
              f"buffer {name!r} is {form} of {tensor and tensor['name']!r}")
        check(buffer["bytes"] <= max(sizes.get(name, buffer["bytes"]), 1),
              f"{buffer['bytes']} bytes are called {name}, which has {sizes.get(name)}")
        check(form != "copy" or not tensor or buffer["bytes"] <= tensor["bytes_per_device"],
              f"{buffer['bytes']} bytes are a {name}")


def wrong_rules(plan):
    """A parameter lies as the rules that it names say, dims whose axes have one device apart."""
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    for tensor in plan["tensors"]:
        for dim in tensor["dims"]:
            rules = [plan["rules"][rule] for rule in dim.get("rules", [])]
            if not all(not rule["dims"] or dim["name"] in rule["dims"] for rule in rules):
                yield f"{tensor['name']}: {dim['name']} has the rules {rules}"
            axes = [axis for rule in rules for axis in rule["axes"] if sizes[axis] > 1]
            if tensor["role"] == "param" and axes != dim["axes"]:
                yield f"{tensor['name']}: {dim['name']} lies over {dim['axes']}, its rules {axes}"


def disagreements(plan, spec_bytes):
    """What two places of a plan say differently."""
    def check(condition, text):
        if not condition:
            found.append(text)

    found = list(wrong_rules(plan))
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    check(plan["devices"] == math.prod(sizes.values()), "devices and mesh")
    check(plan["spec"]["sha256"] == hashlib.sha256(spec_bytes).hexdigest(), "sha256")
    tensors = {tensor["id"]: tensor for tensor in plan["tensors"]}
    commands = {entry["id"] for entry in plan["ops"] + plan["collectives"]}
    check(len(tensors) == len(plan["tensors"]), "ids of tensors")
    check(len(commands) == len(plan["ops"] + plan["collectives"]), "ids of commands")
    names = [(tensor["name"], tensor["role"] == "output") for tensor in plan["tensors"]]
    check(len(set(names)) == len(names), "names of tensors")

    for tensor in plan["tensors"]:
        element_bytes = ELEMENT_BYTES[tensor["dtype"]]
        elements = local = 1
        for dim in tensor["dims"]:
            expected = dim["size"]
            for axis in dim["axes"]:
                expected = -(-expected // sizes[axis])
            check(dim["local_size"] == expected, f"{tensor['name']}: block of {dim['name']}")
            elements *= dim["size"]
            local *= dim["local_size"]
        check(tensor["bytes_global"] == element_bytes * elements, tensor["name"] + ": bytes")
        check(tensor["bytes_per_device"] == element_bytes * local,
              tensor["name"] + ": bytes on a device")
    for op in plan["ops"]:
        for value in op["inputs"] + op["outputs"]:
            check(value in tensors or value in commands, f"{op['id']} names {value}")
    # What is sent may be inside the named tensor, of another type of the program.
    sizes_of_elements = {ELEMENT_BYTES[tensor["dtype"]] for tensor in plan["tensors"]}
    for collective in plan["collectives"]:
        check(collective["tensor"] in tensors, f"{collective['id']}: its tensor")
        check(collective["group_size"] == math.prod(sizes[axis] for axis in collective["axes"]),
              f"{collective['id']}: its group")
        check(collective["payload_bytes"] in
              {size * collective["payload_elements"] for size in sizes_of_elements},
              f"{collective['id']}: its payload")
        check(collective["cause"]["spans"], f"{collective['id']}: no line caused it")
    of_transfers = [entry for transfer in plan["transfers"] for entry in transfer["collectives"]]
    check(of_transfers == [entry["id"] for entry in plan["collectives"]], "members of transfers")
    payload = {entry["id"]: entry["payload_bytes"] for entry in plan["collectives"]}
    flops = {entry["id"]: entry["flops_per_device"] for entry in plan["ops"]}
    for transfer in plan["transfers"]:
        overlap = transfer["overlap"]
        check(transfer["payload_bytes"] == sum(payload[entry] for entry in transfer["collectives"]),
              f"{transfer['id']}: its payload")
        check(overlap["flops_per_device"] == sum(flops[entry] for entry in overlap["ops"]),
              f"{transfer['id']}: flops beside it")
        check(overlap["exposed"] == (not overlap["ops"]), f"{transfer['id']}: exposed")
    found += find_unlike_folds(plan) + find_wrong_sums(plan)
    unhashed = {name: value for name, value in plan.items() if name != "sha256"}
    text = json.dumps(unhashed, separators=(",", ":"), ensure_ascii=False)
    check(plan["sha256"] == hashlib.sha256(text.encode()).hexdigest(), "hash of the plan")
    check(plan["spec"]["files"][0] == {"path": plan["spec"]["path"],
                                       "text": spec_bytes.decode()}, "text of the spec")
    schedule = plan["schedule"]
    check(sorted(schedule) == sorted([entry["id"] for entry in plan["ops"]] +
                                     [entry["id"] for entry in plan["transfers"]]), "schedule")
    of_command = {entry["id"]: entry["transfer"] for entry in plan["collectives"]}
    memory = plan["memory"]
    at = schedule.index(of_command.get(memory["peak_at"], memory["peak_at"]))
    check(alive(memory, at) == max(alive(memory, i) for i in range(len(schedule))), "peak")
    check(alive(memory, at) == sum(memory[part] for part in (
        "params", "model_state", "gradients", "optimizer", "activations", "communication")) +
        sum(buffer["bytes"] for buffer in memory["buffers"]
            if buffer["category"] == "workspace" and buffer["first"] <= at <= buffer["last"]),
        "what is alive at the peak")
    check_phases(plan, check)
    check_buffers(plan, tensors, check)
    for tensor in plan["tensors"]:
        whole = tensors.get(tensor["lies_in"])
        check(tensor["lies_in"] is None or
              whole and whole["bytes_per_device"] >= tensor["bytes_per_device"],
              f"{tensor['id']} lies in {tensor['lies_in']}")
    check(memory["peak_bytes_per_device"] == sum(memory[part] for part in CATEGORIES), "memory")
    for waste in plan["waste"]:
        check(waste["devices"] == math.prod(sizes[axis] for axis in waste["axes"]),
              f"{waste['text']}: devices")
        check(0 <= waste["idle_devices"] < waste["devices"] and 0 <= waste["lost"] < 1,
              f"{waste['text']}: what is lost")
    totals = plan["totals"]
    check(totals["collective_payload_bytes"] ==
          sum(entry["repeat"] * entry["payload_bytes"] for entry in plan["collectives"]),
          "total payload")
    check(totals["flops_per_device"] ==
          sum(entry["repeat"] * entry["flops_per_device"] for entry in plan["ops"]),
          "total flops")
    return found


CATEGORIES = ["params", "model_state", "gradients", "optimizer", "activations",
              "communication", "workspace"]


def find_wrong_sums(plan):
    """Parts that are not what the parts in them and what is of themselves add up to. Times of
    ops are rounded one by one, those of parts so that they add up."""
    own = {part["id"]: collections.Counter() for part in plan["parts"]}
    transfers = {transfer["id"]: transfer for transfer in plan["transfers"]}
    sent = collections.Counter()
    for one in plan["collectives"]:
        sent[one["transfer"]] += one["wire_bytes_per_device"]
    for op in plan["ops"]:
        own[op["part"]]["flops"] += op["repeat"] * op["flops_per_device"]
        own[op["part"]]["compute"] += op.get("time_us", 0)
    for one in plan["collectives"]:
        transfer = transfers[one["transfer"]]
        share = (one["wire_bytes_per_device"] / sent[transfer["id"]] if sent[transfer["id"]]
                 else 1 / len(transfer["collectives"]))
        own[one["part"]]["sent"] += one["repeat"] * one["wire_bytes_per_device"]
        own[one["part"]]["exposed"] += share * transfer.get("exposed_us", 0)
    for alive_then in plan["memory"]["at_peak"]:
        own[alive_then["part"]][alive_then["category"]] += alive_then["bytes"]
    # What no value takes is of none.
    held = sum(entry["bytes"] for entry in plan["memory"]["at_peak"])
    own["p0"]["workspace"] += plan["memory"]["peak_bytes_per_device"] - held
    for part in reversed(plan["parts"]):
        if part["parent"]:
            own[part["parent"]] += own[part["id"]]
    found = []
    names = {part["id"]: part["name"] for part in plan["parts"]}
    for part in plan["parts"]:
        parent = names.get(part["parent"])
        if part["name"] != (f"{parent}/" if parent else "") + part["name"].split("/")[-1]:
            found.append(f"{part['name']} is in {parent}")
        sums = own[part["id"]]
        exact = {"flops": part["flops_per_device"], "sent": part["wire_bytes_per_device"], **part["at_peak"]}
        found += [f"{part['name']}: {name} is {value}, not {sums[name]}"
                  for name, value in exact.items() if value != sums[name]]
        found += [f"{part['name']}: {name} is {part[name + '_us']}, not {sums[name]}"
                  for name in ("compute", "exposed")
                  if name + "_us" in part and abs(part[name + "_us"] - sums[name]) > rounding_of(plan)]
    whole, totals = plan["parts"][0], plan["totals"]
    if any(whole[name] != totals[name] for name in ("flops_per_device", "wire_bytes_per_device")):
        found.append("the parts are not all of the step")
    if any(whole.get(name) != totals.get(name) for name in ("compute_us", "exposed_us")):
        found.append("the times of the parts are not those of the step")
    if whole["at_peak"] != {name: plan["memory"][name] for name in CATEGORIES}:
        found.append("the memory of the parts is not that of a device")
    return found


def rounding_of(plan):
    """Microseconds by which sums of times may differ that are whole nanoseconds each."""
    return 1e-3 * (len(plan["ops"]) + len(plan["transfers"]) + len(plan["parts"]))


def find_wrong_parts(meshc):
    """Attention and feed-forward of a GPT, as a loop and as calls written out, have the products
    that they have on paper, each with two for its gradients, and what is called so."""
    found = []
    tokens, d_model, layers, devices = 4 * 16, 32, 3, 4
    expected = {"norm1": 0, "attn": 4 * d_model + 2 * 16, "norm2": 0, "ff": 2 * 4 * d_model}
    for form, text in gpt3.get_forms(meshc.root, 3).items():
        with tempfile.NamedTemporaryFile("w", suffix=".mesh") as spec:
            spec.write(text)
            spec.flush()
            plan = meshc.plan(spec.name, *SMALL_GPT, "--target", "cuda", "--machine", "h100")
        found += [f"{form}: {text}" for text in find_wrong_sums(plan)]
        ids = {part["name"]: part["id"] for part in plan["parts"]}
        outer = "layer/block" if form == "loop" else "b1"
        for name, columns in expected.items():
            part = ids.get(f"{outer}/{name}")
            called = re.compile(rf"(layer/\d+/block|layer/block|b\d)/{name}(/|_\d+$|$)")
            forward = [op for op in plan["ops"] if op["phase"] == "forward"]
            unlike = [entry["name"] for entry in forward + plan["tensors"]
                      if bool(called.search(entry["name"].split(" as ")[0])) !=
                      (is_within(plan, entry["part"], part))]
            if not part or unlike:
                found.append(f"{form}: {name} is {part}, which has these or not: {unlike[:8]}")
            flops = sum(op["repeat"] * op["flops_per_device"] for op in plan["ops"]
                        if op["kind"] == "matmul" and is_within(plan, op["part"], part))
            on_paper = 3 * layers * 2 * tokens * d_model * columns // devices
            if flops != on_paper:
                found.append(f"{form}: the products of {name} are {flops} flop, not {on_paper}")
        count = next(part["count"] for part in plan["parts"] if part["name"] == outer)
        if count != 3:
            found.append(f"{form}: {outer} is there {count} times")
    return found


def is_within(plan, part, other):
    """Whether a part is another one or in it."""
    parents = {entry["id"]: entry["parent"] for entry in plan["parts"]}
    while part and part != other:
        part = parents[part]
    return part == other


def check_times(plan):
    """What the predicted times of a plan say differently; with a machine all are there."""
    # In whole nanoseconds each.
    tolerance = 1e-3 * (len(plan["ops"]) + len(plan["transfers"]))
    totals = plan["totals"]
    compute = sum(op["time_us"] for op in plan["ops"])
    exposed = sum(transfer["exposed_us"] for transfer in plan["transfers"])
    end = max(entry["start_us"] + entry["time_us"] for entry in plan["ops"] + plan["transfers"])
    sums = {"compute_us": compute, "exposed_us": exposed, "step_us": compute + exposed}
    found = [f"{name} is {totals[name]}, not {value}" for name, value in sums.items()
             if not math.isclose(totals[name], value, abs_tol=tolerance)]
    if not math.isclose(end, totals["step_us"], abs_tol=tolerance):
        found.append(f"the last command ends at {end}, the step at {totals['step_us']}")
    first = totals.get("first_parts", {"runs": 0, "step_us": 0})
    whole = totals["step_us"] + first["runs"] * first["step_us"]
    found += [f"{name}_per_s is {totals[f'{name}_per_s']}, {totals[name]} in {whole} us"
              for name in ("samples", "tokens") if name in totals
              and not math.isclose(totals[f"{name}_per_s"], totals[name] * 1e6 / whole,
                                   rel_tol=2e-3 / whole + 1e-9, abs_tol=2e-3)]
    if plan["target"] == "cuda" and not 0 <= totals["peak_share"] < 1:
        found.append(f"{totals['peak_share']} of the peak")
    return found


def find_unseen(contract, seen):
    """Fields that no plan has had, but for those of traces (tests/commands/check_trace.py), and
    of operations without a name: in the language each is a value or inside of one
    (tests/frontend/plan/PlanJsonTest.cpp has one)."""
    todo, known, unseen = [("plan", contract)], set(), []
    while todo:
        place, part = todo.pop()
        while isinstance(part, (list, Nullable)):
            part = part[0] if isinstance(part, list) else part.contract
        if not isinstance(part, dict) or id(part) in known:
            continue
        known.add(id(part))
        for name, inner in part.items():
            if name in ("trace?", "consumer_operation?") or name.startswith("measured_"):
                continue
            if (id(part), name) not in seen:
                unseen.append(f"{place}.{name}")
            todo.append((f"{place}.{name.rstrip('?')}", inner))
    return unseen


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    contract = read_contract(f"{sys.argv[2]}/frontend/plan/json/FIELDS.md")
    problems, seen = [], set()
    for name, arguments in cases.CASES.items():
        plan = meshc.plan(*arguments)
        with open(f"{sys.argv[2]}/{arguments[0]}", "rb") as spec:
            found = violations(plan, contract, "plan", seen) + disagreements(plan, spec.read())
        problems += [f"{name}: {text}" for text in found]
        # Of a long plan about eight of each kind.
        asked = [entry for kind in ("collectives", "ops", "tensors")
                 for entry in plan[kind][::max(1, len(plan[kind]) // 8)]]
        for entry in asked:
            text = meshc.run("explain", entry["id"])
            if "no reason" in text or not text:
                problems.append(f"{name}: explain {entry['id']}: {text}")
        # Behind explanations, which are of the plan shown last: by other prices
        # commands may come in another order.
        if plan["target"] == "cuda":
            timed = meshc.plan(*arguments, "--machine", "h100")
            with open(f"{sys.argv[2]}/{arguments[0]}", "rb") as spec:
                found = violations(timed, contract, "plan", seen) + check_times(timed) + \
                    disagreements(timed, spec.read())
            problems += [f"{name}, timed: {text}" for text in found]
    problems += find_wrong_parts(meshc)
    for arguments in OTHERS:
        problems += [f"{arguments}: {text}" for text in
                     violations(meshc.plan(*arguments), contract, "plan", seen)]
    for arguments in ADDED:
        plan = meshc.plan(*arguments)
        with open(f"{sys.argv[2]}/{arguments[0]}", "rb") as spec:
            found = violations(plan, contract, "plan", seen) + disagreements(plan, spec.read())
        problems += [f"{arguments}: {text}" for text in found]
    problems += [f"no plan has {name}" for name in find_unseen(contract, seen)]
    if problems:
        sys.exit("\n".join(problems))


main()
