"""The positions that the page says devices hold tile each tensor: they are disjoint or equal,
cover it, and the largest has the compiler's size. Sums on the page are the compiler's."""

import itertools
import json
import math
import re

import browser
import cases

UNEVEN = {
    "mlp": [cases.MLP],
    "mlp-uneven": cases.CASES["mlp-uneven"],
    "mlp-two-axes": cases.CASES["mlp-two-axes"],
    "mlp-nested": [cases.MLP, "-Dbatch=11", "-Dhidden=7", "--mesh", "a=2,b=3,c=2", "--layout", "batch=a+b,hidden=c"],
    "blocks-key-pos": cases.CASES["blocks-key-pos"],
    "convnet": browser.CONVNET,
}


# With halos, and with more coordinates than positions.
PRINTED = {"convnet", "mlp-uneven", "mlp-nested"}


# Dimensions that their axes divide.
COPIED = {
    "mlp": [cases.MLP],
    "blocks on H100": [cases.BLOCKS, "--machine", "h100", "--precision", "bf16"],
    "mlp-two-axes": cases.CASES["mlp-two-axes"],
    "megatron": ["samples/layouts/megatron.mesh", "--machine", "h100"],
    "mlp, all copies": [cases.MLP, "--layout", ""],
    "one device": [cases.MLP, "--mesh", "data=1,model=1"],
    "GPT-3": browser.FEW_LAYERS,
}


def get_ranges(page):
    """By tensor and device: a range for each dim."""
    return page.run("""
        const {page, heldRanges} = planPage;
        return page.plan.json.tensors.map(tensor =>
          Array.from({length: page.plan.devices}, (_, device) => heldRanges(page.plan, tensor.dims, device)));""")


def check_tiling(page, plan, name):
    for tensor, devices in zip(plan["tensors"], get_ranges(page)):
        what = f"{name}: {tensor['name']}"
        sizes = [dim["size"] for dim in tensor["dims"]]
        if any(dim.get("window") for dim in tensor["dims"]):
            continue
        for place, dim in enumerate(tensor["dims"]):
            blocks = sorted({tuple(ranges[place]) for ranges in devices if ranges[place][0] < ranges[place][1]})
            ends = [0, *(end for _, end in blocks)]
            page.expect([begin for begin, _ in blocks] == ends[:-1] and ends[-1] == dim["size"],
                        f"{what}: {dim['name']} of {dim['size']} is held as {blocks}")
            most = max(end - begin for begin, end in blocks)
            page.expect(most == dim["local_size"], f"{what}: {dim['name']} has {most} positions at most, expected {dim['local_size']}")
        boxes = {tuple(map(tuple, ranges)) for ranges in devices if all(begin < end for begin, end in ranges)}
        held = sum(math.prod(end - begin for begin, end in box) for box in boxes)
        page.expect(held == math.prod(sizes), f"{what}: {held} of {math.prod(sizes)} elements are held")
        for first, second in itertools.combinations(boxes, 2):
            overlap = all(a[0] < b[1] and b[0] < a[1] for a, b in zip(first, second))
            page.expect(not overlap, f"{what}: {first} and {second} overlap")


def check_windows(page, plan, name):
    """What an exchange leaves on a device holds its own block, and is as large as the compiler says."""
    for collective in plan["collectives"]:
        dims = collective["after"]["dims"]
        if not any(dim.get("window") for dim in dims):
            continue
        read = page.run("""
            const {page, heldRanges} = planPage;
            return Array.from({length: page.plan.devices}, (_, device) => heldRanges(page.plan, arguments[0], device));""", dims)
        for ranges in read:
            for (begin, end), dim in zip(ranges, dims):
                page.expect(0 <= begin <= end <= dim["size"] and end - begin <= dim["local_size"],
                            f"{name}: {collective['id']} leaves {begin}:{end} of {dim}")


def read_printed(text):
    """By tensor of this name and device: the ranges that `meshc plan --tensor` prints."""
    tensors = []
    for line in text.splitlines():
        if not line.startswith("  "):
            tensors += [{}] if line else []
            continue
        if "holds one term" in line:
            continue
        block, found, devices = re.fullmatch(r"  (.*?)  +(devices?) ([\d, ]+)", line).groups()
        ranges = [re.search(r" (?:(\d+):(\d+)|none)$", part).groups() for part in block.split(", ")]
        for device in devices.split(", "):
            tensors[-1][int(device)] = [[int(begin or 0), int(end or 0)] for begin, end in ranges]
    return tensors


def check_printed(page, compiler, arguments, plan, name):
    """What the page says each device holds is what the compiler prints, a value of each split."""
    splits = {}
    for index, tensor in enumerate(plan["tensors"]):
        # What all devices hold is printed as a number of them.
        is_split = any(dim["axes"] for dim in tensor["dims"])
        if is_split and not tensor.get("partial") and " " not in tensor["name"]:
            splits.setdefault(json.dumps(tensor["dims"]), (index, tensor))
    ranges = get_ranges(page)
    seen = 0
    for index, tensor in splits.values():
        printed = read_printed(compiler.run("plan", *arguments, "--tensor", tensor["name"]))
        shown = {device: [[begin, end] if begin < end else [0, 0] for begin, end in held]
                 for device, held in enumerate(ranges[index])}
        page.expect(shown in printed, f"{name}: {tensor['name']} is held as {shown}, printed as {printed}")
        seen += 1
    page.expect(seen > 3, f"{name}: {seen} values were compared")


def check_copies(page, plan, name):
    """Of what is alive at the peak the page says what other devices hold too: by the devices that
    have the same positions."""
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    gathered = {one["tensor"]: one["after"] for one in plan["collectives"] if one["kind"] == "all_gather"}
    splits = {(tensor["id"], False): tensor for tensor in plan["tensors"]} | \
             {(id_, True): split for id_, split in gathered.items()}
    alive = [(one, (one["tensor"], one["form"] == "gathered")) for one in plan["memory"]["at_peak"]
             if one["tensor"] and one["form"] in ("itself", "copy", "padded", "gathered")]
    alive = [(one, key) for one, key in alive if key in splits]
    used = sorted({key for _, key in alive})
    same = dict(zip(used, page.run("""
        const {page, heldRanges} = planPage;
        return arguments[0].map(dims => {
          const own = JSON.stringify(heldRanges(page.plan, dims, 0));
          let count = 0;
          for (let device = 0; device < page.plan.devices; ++device) count += JSON.stringify(heldRanges(page.plan, dims, device)) === own;
          return count;
        });""", [splits[key]["dims"] for key in used])))
    for key in used:
        # Devices along these axes have the same positions and different terms.
        same[key] /= math.prod(sizes[axis] for axis in (splits[key].get("partial") or {"axes": []})["axes"])
    copied = sum(one["bytes"] * (1 - 1 / same[key]) for one, key in alive)
    peak = plan["memory"]["peak_bytes_per_device"]
    if not copied:
        page.expect("Nothing at the peak is held by two devices" in page.text("#memory"), f"{name}: nothing is copied, which is not said")
        return
    text = page.text("#memory .copied")
    wanted = [browser.format_bytes(number) for number in (peak, copied, copied * plan["devices"])]
    page.expect(all(number in text for number in wanted), f"{name}: copies hold {text}, expected {wanted}")
    page.run("document.querySelector('#memory table.copied').parentElement.parentElement.querySelector('.more')?.click()")
    rows = page.run("""
        const {plan} = planPage.page;
        return [...document.querySelectorAll('#memory table.copied tbody tr')].map(row =>
          [plan.values[row.dataset.index].ids, ...[...row.cells].map(cell => cell.textContent)]);""")
    expected = sum(1 for key in used if same[key] > 1)
    page.expect(0 < len(rows) <= expected, f"{name}: {len(rows)} rows of copies for {expected} values")
    for ids, value, along, copies, bytes_, _, _ in rows:
        is_gathered = value.startswith("gathered ")
        count = same[next((id_, is_gathered) for id_ in ids if (id_, is_gathered) in same)]
        page.expect(int(copies.replace("\u202f", "")) == count > 1, f"{name}: {value} has {copies} copies, expected {count}")
        page.expect(along and set(along.split(" + ")) <= set(sizes), f"{name}: {value} is the same along {along}")
    most = max((key for key in used if not key[1]), key=same.get)
    page.select("value", page.run("return planPage.page.plan.valueOf.get(arguments[0])", most[0]))
    said = page.text(".inspector .facts").replace("\u202f", "")
    page.expect(f"{same[most]:.0f} copies" in said, f"{name}: the inspector says {said}")
    return any(is_gathered for _, is_gathered in used)


def check_sums(page, plan, name):
    sums = page.run("""
        const {page, costOfLines, makeCurve} = planPage;
        const {plan} = page;
        const curve = makeCurve(plan);
        const total = list => list.reduce((sum, one) => sum + one, 0);
        return {
          sent: total(costOfLines(plan).map(cost => cost.sent)) + total(plan.collectives.filter(one => one.line < 0).map(one => one.sent)),
          time: total(costOfLines(plan).map(cost => cost.computed + cost.exposed)) + total(plan.operations.filter(one => one.line < 0).map(one => one.time)) + total(plan.collectives.filter(one => one.line < 0).map(one => one.exposed)),
          peak: total(curve.sums[curve.peak]), most: Math.max(...curve.sums.map(total)),
          flops: total(plan.operations.map(one => one.flops)),
          waits: total(page.track.waits.map(wait => wait.to - wait.from)),
          counts: [total(plan.collectives.map(one => one.ids.length)), total(plan.operations.map(one => one.ids.length))],
        };""")
    totals, peak = plan["totals"], plan["memory"]["peak_bytes_per_device"]
    page.expect(sums["sent"] == totals["wire_bytes_per_device"], f"{name}: lines send {sums['sent']}")
    page.expect(sums["peak"] == sums["most"] == peak, f"{name}: the curve has its peak at {sums['peak']}, {sums['most']}; expected {peak}")
    page.expect(sums["flops"] == totals["flops_per_device"], f"{name}: operations have {sums['flops']} flops")
    page.expect(sums["counts"] == [len(plan["collectives"]), len(plan["ops"])], f"{name}: rows have {sums['counts']} members")
    if plan.get("machine"):
        page.expect(math.isclose(sums["time"], totals["step_us"], abs_tol=0.001 * len(plan["schedule"])), f"{name}: lines take {sums['time']} of {totals['step_us']}")
        page.expect(math.isclose(sums["waits"], totals["exposed_us"], abs_tol=0.001 * len(plan["schedule"])), f"{name}: waits of {sums['waits']}, expected {totals['exposed_us']}")


def main():
    compiler, page = browser.start()
    # What is printed is read by lines, however long.
    compiler.environment["COLUMNS"] = "9999"
    with page:
        for name, arguments in UNEVEN.items():
            for machine in ([], ["--machine", "h100"]):
                plan = compiler.plan(*arguments, *machine)
                page.open([plan], all_views=False)
                if not machine:
                    check_tiling(page, plan, name)
                    check_windows(page, plan, name)
                    if name in PRINTED:
                        check_printed(page, compiler, arguments, plan, name)
                check_sums(page, plan, name)
        are_gathered = []
        for name, arguments in COPIED.items():
            plan = compiler.plan(*arguments)
            page.open([plan])
            are_gathered.append(check_copies(page, plan, name))
        page.expect(any(are_gathered), "copies: none are gathered")
        page.finish()


main()
