"""What bounds each operation is said of each, and how near it is to the full rates of the machine."""

import re

import browser
import cases

MACHINE = ["--machine", "h100"]
SAMPLES = {"mlp": [cases.MLP, *MACHINE], "blocks": [cases.BLOCKS, *MACHINE, "--precision", "bf16"],
           "convnet": [*browser.CONVNET, *MACHINE], "GPT-3": browser.FEW_LAYERS}
WORDS = {"flops": "arithmetic", "memory": "memory", "launch": "launches"}


def get_share(plan, ops):
    """Of the time of operations what their arithmetic or bytes take at full rates; None where the
    type of a product is not known."""
    constants = {one["name"]: one["value"] for one in plan["machine"]["constants"]}
    types = {tensor["id"]: tensor["dtype"] for tensor in plan["tensors"]}
    total = 0
    for op in ops:
        rate = constants["other arithmetic"]
        if op["kind"] in ("matmul", "convolution"):
            known = {types[id_] for id_ in op["inputs"] if id_ in types and f"matmul {types[id_]}" in constants}
            if len(known) != 1:
                return None
            rate = constants[f"matmul {known.pop()}"]
        total += op["repeat"] * max(op["flops_per_device"] / rate, op["bytes_per_device"] / constants["memory rate"])
    return total / sum(op["time_us"] for op in ops)


def get_bounds(ops):
    times = {}
    for op in ops:
        times[op["bound"]] = times.get(op["bound"], 0) + op["time_us"]
    return times


def is_said(text, times):
    """Whether every bound of a hundredth of the time is said, and no other than there are."""
    total = sum(times.values())
    return all(WORDS[bound] in text for bound, time in times.items() if time > 0.01 * total) and \
        not any(word in text for bound, word in WORDS.items() if bound not in times)


def check_rows(page, plan, name):
    ops = {op["id"]: op for op in plan["ops"]}
    page.run("document.querySelector('#timeline table.roofs').parentElement.parentElement.querySelector('.more')?.click()")
    rows = page.run("""
        const {plan} = planPage.page;
        return [...document.querySelectorAll('#timeline table.roofs tbody tr')].map(row => {
          const {ids, index} = plan.operations[row.dataset.index];
          planPage.page.select({kind: 'operation', index}, true);
          return [ids, ...[...row.cells].map(cell => cell.textContent), document.querySelector('.inspector .facts').textContent];
        });""")
    seen, compared, shares = [], 0, []
    for ids, called, time, bound, _, _, share, _, facts in rows:
        own = [ops[id_] for id_ in ids]
        seen += ids
        us = sum(op["time_us"] for op in own)
        shares.append(us)
        page.expect(time.startswith(browser.format_time(us)), f"{name}: {called} takes {time}, expected {us}")
        page.expect(is_said(bound, get_bounds(own)), f"{name}: {called} is bound by {bound}, expected {get_bounds(own)}")
        page.expect(f"bound by {bound}, at {share} of the roof" in facts, f"{name}: {called}: the inspector says {facts}")
        number = float(re.sub(r"[^\d.]", "", share))
        page.expect(0 <= number <= 100, f"{name}: {called} is at {share} of the roof")
        expected = get_share(plan, own)
        if expected is not None:
            compared += 1
            page.expect(abs(number - 100 * expected) <= 0.51 if "<" not in share else expected < 0.001,
                        f"{name}: {called} is at {share} of the roof, expected {expected}")
    page.expect(sorted(seen) == sorted(ops), f"{name}: {len(seen)} operations of {len(ops)} are in the table")
    page.expect(shares == sorted(shares, reverse=True), f"{name}: the longest is not first")
    page.expect(compared > 3, f"{name}: {compared} shares were compared")
    print(f"{name}: {compared} of {len(rows)} rows")


def check_whole(page, plan, name):
    """What bounds the step is said where it begins, and where its operations are."""
    times = get_bounds(plan["ops"])
    for view in ("verdict", "timeline"):
        said = page.text(f"#{view} .bounds")
        page.expect(is_said(said, times), f"{name}: {view} says {said}, expected {times}")
        for bound, share in re.findall(r"(\w+) \(([\d.]+)\s%\)", said):
            key = next(key for key, word in WORDS.items() if word == bound)
            expected = 100 * times[key] / sum(times.values())
            page.expect(abs(float(share) - expected) <= 0.51, f"{name}: {view} says {said}, expected {times}")


def main():
    compiler, page = browser.start()
    with page:
        for name, arguments in SAMPLES.items():
            plan = compiler.plan(*arguments)
            page.open([plan])
            check_rows(page, plan, name)
            check_whole(page, plan, name)
            tip = page.run("""
                const command = document.querySelector('#timeline rect.command');
                command?.dispatchEvent(new PointerEvent('pointerenter'));
                return command && document.querySelector('.tip').textContent;""")
            page.expect(tip and "bound by " in tip.lower() and " of the roof" in tip, f"{name}: a command says {tip}")
        page.open([compiler.plan(cases.MLP)])
        page.expect(page.count("table.roofs") == 0 and "bound by" not in page.text("#verdict"), "without a machine something is bound")
        page.finish()


main()
