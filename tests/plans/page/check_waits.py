"""A message says why it is not hidden and what it is queued behind, and wherever the word
"exposed" stands the view says what it means."""

import re

import browser
import cases

MACHINE = ["--machine", "h100"]
SAMPLES = {"mlp": [cases.MLP, *MACHINE], "blocks": [cases.BLOCKS, *MACHINE],
           "fsdp": ["samples/layouts/fsdp.mesh", *MACHINE], "convnet": [*browser.CONVNET, *MACHINE],
           "GPT-3": browser.FEW_LAYERS}
# Times of the JSON are whole nanoseconds.
APART = 0.0025


def get_makers(plan):
    """By id of what a command makes, a command standing for a result without a name: places in
    the command list, and when it is made."""
    place = {id_: at for at, id_ in enumerate(plan["schedule"])}
    ends = {one["id"]: one["start_us"] + one["time_us"] for one in [*plan["ops"], *plan["transfers"]]}
    makers = {}
    for one in [*plan["ops"], *plan["collectives"]]:
        command = one.get("transfer", one["id"])
        for id_ in [one["id"], *one["outputs"]]:
            makers.setdefault(id_, []).append((place[command], ends[command]))
    return place, makers


def get_ready(plan, place, makers, transfer):
    """When all that a transfer sends is there."""
    members = [one for one in plan["collectives"] if one["transfer"] == transfer["id"]]
    times = [0]
    for id_ in (id_ for one in members for id_ in one["inputs"]):
        times += [at for _, at in sorted(maker for maker in makers.get(id_, []) if maker[0] < place[transfer["id"]])[-1:]]
    return max(times)


def expand(text):
    """c1 of "c1, c3 to c5 and c7", each."""
    ids = set()
    for first, last in re.findall(r"c(\d+)(?: (?:to|and) c(\d+))?", text):
        ids |= {f"c{number}" for number in range(int(first), int(last or first) + 1)}
    return ids


def check_messages(page, plan, name):
    """Of each row the transfer that is exposed longest: for how long, and what is queued before it."""
    place, makers = get_makers(plan)
    collectives = {one["id"]: one for one in plan["collectives"]}
    transfers = {one["id"]: one for one in plan["transfers"]}
    queued_ones = hidden = 0
    told = page.run("""
        return planPage.page.plan.collectives.map(({ids, index}) => {
          planPage.page.select({kind: 'collective', index}, true);
          return [ids, document.querySelector('#ledger tr.opened').textContent, document.querySelector('.inspector').textContent];
        });""")
    for ids, text, inspected in told:
        own = [transfers[collectives[id_]["transfer"]] for id_ in ids]
        most = max(own, key=lambda one: one["exposed_us"])
        worst = [one for one in own if one["exposed_us"] == most["exposed_us"]]
        what = f"{name}: {ids[0]} of {len(ids)}"
        if most["exposed_us"] < APART:
            hidden += 1
            expected = " hidden"
        else:
            # Of what is exposed alike one is told.
            expected = "|".join(f"for {browser.format_time(one['exposed_us'])} of {browser.format_time(one['time_us'])}: nothing is computed meanwhile"
                                for one in worst)
        page.expect(re.search(expected, text) and re.search(expected, inspected), f"{what}: expected {expected}, is told {text}")
        found = re.search(r"queued behind (.*?) for ([\d.]+\s\w+)", text)
        page.expect(bool(found) == ("queued" in inspected), f"{what}: the inspector does not say the same: {inspected}")
        behind = []
        for one in worst:
            ready = get_ready(plan, place, makers, one)
            ahead = [other for other in transfers.values() if place[other["id"]] < place[one["id"]] and other["time_us"]
                     and other["start_us"] < one["start_us"] and other["start_us"] + other["time_us"] > ready + APART]
            if ahead and max(other["start_us"] + other["time_us"] for other in ahead) > one["start_us"] - APART:
                first = min(other["start_us"] for other in ahead)
                behind.append(({id_ for other in ahead for id_ in other["collectives"]},
                               browser.format_time(one["start_us"] - max(ready, first))))
            else:
                behind.append(None)
        said = (expand(found[1]), found[2]) if found else None
        if found and "more" in found[1]:
            continue
        queued_ones += bool(found)
        page.expect(said in behind, f"{what}: is told to be queued behind {said}, expected {behind[0]}")
    print(f"{name}: {queued_ones} queued, {hidden} hidden, {len(told)} rows")
    return queued_ones, hidden, len(told)


def check_words(page, name):
    """Wherever something is called exposed, that view says what that is."""
    views = page.run("""
        planPage.page.select({kind: 'axis', index: 0}, true);
        return [...document.querySelectorAll('section.view, .inspector')].map(view => [view.id || 'inspector', view.innerText]);""")
    words = [view for view, text in views if "exposed" in text.lower()]
    page.expect({"verdict", "ledger", "mesh", "timeline", "inspector"} <= set(words), f"{name}: exposed is a word of {words}")
    for view, text in views:
        if view in words:
            page.expect(re.search("nothing computed meanwhile|computes nothing while", text), f"{name}: {view} does not say what is exposed")


def main():
    compiler, page = browser.start()
    with page:
        counts = []
        for name, arguments in SAMPLES.items():
            plan = compiler.plan(*arguments)
            page.open([plan, plan])
            counts.append(check_messages(page, plan, name))
            check_words(page, name)
        queued, hidden, rows = map(sum, zip(*counts))
        page.expect(queued > 5 and hidden > 5 and hidden < rows - 5, f"{queued} of {rows} are queued, {hidden} hidden")
        page.finish()


main()
