"""A selected line lights up exactly the collectives that it is a cause of; any member of a
fold opens it; selecting again clears; the device and the selection are in the link."""

import browser
import cases


def get_collectives(plan, line):
    """Ids of those of which a cause has a span over the line."""
    found = set()
    for collective in plan["collectives"]:
        for cause in [collective["cause"], *collective.get("merged_causes", [])]:
            for span in cause["spans"]:
                if span and span["path"] == plan["spec"]["path"] and span["line"] <= line <= span["end_line"]:
                    found.add(collective["id"])
    return found


def check_lines(page, plan, name):
    lines = plan["spec"]["files"][0]["text"].rstrip("\n").split("\n")
    lit = 0
    for line, found in enumerate(page.lit_by_each("line", len(lines)), 1):
        expected = get_collectives(plan, line)
        lit += len(found)
        page.expect(found == expected, f"{name}: line {line} lights {sorted(found)}, expected {sorted(expected)}")
    page.expect(lit > 0, f"{name}: no line lights anything")


def check_collectives(page, plan, name):
    """The steps of a cause stand at its lines, and a member of a fold opens the fold."""
    ids = [collective["id"] for collective in plan["collectives"]]
    for id_, (selected, steps) in zip(ids, page.follow_each([f"sel={id_}" for id_ in ids], """
            const steps = [...document.querySelectorAll('.line .step')].map(step => Number(step.textContent));
            return [lit('ledger', 'selected'), steps.sort((a, b) => a - b)];"""), strict=True):
        page.expect(id_ in selected, f"{name}: {id_} selects {selected}")
        page.expect(steps == list(range(1, len(steps) + 1)) and steps, f"{name}: {id_} has the steps {steps}")


def check_first_lines(page, plan, name):
    """The first line of a cause is in sight in the inspector and, where that stands beside the
    views, in the source, wherever that was scrolled to."""
    for width in browser.WIDTHS:
        # Of many rows one height is enough.
        for height in (640, 900) if len(plan["collectives"]) < 50 else (640,):
            page.resize(width, height)
            page.settle()
            page.run("document.querySelector('.columns').scrollIntoView()")
            for id_, first, number, inspected, shown in page.run(browser.SEEN + """
                    const {page} = planPage;
                    const find = selector => document.querySelector(selector);
                    return page.plan.collectives.map(({id, steps: [first]}, index) => {
                      page.select(null);
                      find('.lines').scrollTop = index % 2 * 9999;
                      page.select({kind: 'collective', index}, true);
                      return [id, first, find('.inspector .cause .step').textContent, isSeen(find('.inspector .cause li')),
                              isSeen(find(`.line[data-index="${first}"] .step`))];
                    });"""):
                what = f"{name}: at {width} x {height} of {id_}"
                page.expect(number == "1" and inspected, f"{what} the inspector hides the first line")
                page.expect(width < 1000 or shown, f"{what} the source hides line {first + 1}")
    page.resize(1280, 900)


def check_ledger(page, plan, name):
    """Layers that are one row are counted once: of each row how many, what one brings in and what
    all send; below them the sums, which are the compiler's."""
    folds = {}
    for one in plan["collectives"]:
        folds.setdefault(one["fold"], []).append(one)
    page.run("document.querySelector('#ledger .more')?.click()")
    rows = page.run("""
        return [...document.querySelectorAll('#ledger tbody tr[data-index]')].map(row =>
          [planPage.page.plan.collectives[row.dataset.index].id, ...[...row.cells].map(cell => cell.textContent)]);""")
    page.expect(len(rows) == len(folds), f"{name}: {len(rows)} rows for {len(folds)} folds")
    for id_, ids, _, _, count, payload, sent, *_ in rows:
        members = folds[next(one["fold"] for one in plan["collectives"] if one["id"] == id_)]
        expected = [str(sum(one["repeat"] for one in members)), browser.format_bytes(members[0]["payload_bytes"]),
                    browser.format_bytes(sum(one["repeat"] * one["wire_bytes_per_device"] for one in members))]
        page.expect([count, payload, sent] == expected, f"{name}: {ids} has {[count, payload, sent]}, expected {expected}")
    count, sent = sum(one["repeat"] for one in plan["collectives"]), plan["totals"]["wire_bytes_per_device"]
    below = page.text("#ledger .sum").replace("\u202f", "")
    page.expect(f"for {count}\u00a0collectives, {browser.format_bytes(sent)} sent" in below,
                f"{name}: below the rows is said {below}, expected {count} and {sent} bytes")


ORIGINS = {"contraction": "completes the sum", "reduction": "completes the sum",
           "window": "Neighbours have what the window reads"}


def check_origins(page, compiler):
    """An open row says whether the spec asks for the message, the layout means it, or neither."""
    seen = set()
    for arguments in ([cases.MLP], browser.CONVNET, ["samples/layouts/experts.mesh"],
                      cases.CASES["blocks-d-model"]):
        plan = compiler.plan(*arguments)
        page.open([plan])
        links = [f"sel={collective['id']}" for collective in plan["collectives"]]
        texts = page.follow_each(links, "return document.querySelector('#ledger tr.opened').textContent;")
        for collective, text in zip(plan["collectives"], texts, strict=True):
            cause = collective["cause"]
            says = "Written in the spec" if cause["written"] else \
                ORIGINS.get(cause["kind"], "Inserted by the compiler")
            seen.add(says)
            page.expect(says in text, f"{arguments[0]}: {collective['id']} of {cause['kind']} says {text}")
    page.expect(len(seen) == 3, f"origins: only {seen}")


def check_remarks(page, compiler):
    """What was not written stands beside its line, and is told where that is selected."""
    plan = compiler.plan(cases.BLOCKS)
    page.open([plan])
    page.expect(plan["remarks"], "remarks: there are none")
    for remark in plan["remarks"]:
        line = remark["span"]["line"]
        titles = page.run("""
            const row = [...document.querySelectorAll('.line')].find(
                line => line.querySelector('.number').firstChild.textContent === String(arguments[0]));
            return [...row.querySelectorAll('.chip.remark')].map(chip => chip.title);""", line)
        page.expect(any(title.startswith(remark["text"]) for title in titles),
                    f"remarks: line {line} says {titles}, not {remark['text']}")
        page.select("line", line - 1)
        said = page.text(".inspector")
        page.expect(remark["text"] in said and remark.get("advice", "") in said,
                    f"remarks: of line {line} is said {said}")


def check_waits(page, compiler):
    """A wait is told of the largest collective of its transfer."""
    plan = compiler.plan(cases.MLP, "--machine", "h100")
    page.open([plan])
    payload = {one["id"]: one["payload_bytes"] for one in plan["collectives"]}
    merged = [one for one in plan["transfers"] if len(one["collectives"]) > 1]
    for transfer in plan["transfers"]:
        page.expect(payload[transfer["largest"]] == max(payload[one] for one in transfer["collectives"]),
                    f"waits: {transfer['id']} is told of {transfer['largest']}")
    tips = page.run("""
        return [...document.querySelectorAll('#timeline .wait')].map(shape => {
          shape.dispatchEvent(new PointerEvent('pointerenter'));
          return document.querySelector('.tip').textContent;
        });""")
    page.expect(merged and tips, f"waits: {len(merged)} transfers of several, {len(tips)} waits")
    for tip in tips:
        page.expect(any(f"for {one['largest']}" in tip for one in plan["transfers"]), f"waits: a tip says {tip}")
    page.expect(any(f"for {one['largest']} + {len(one['collectives']) - 1}," in tip
                    for one in merged for tip in tips), f"waits: no tip is of {merged[0]['collectives']}: {tips}")


def check_links(page, plan):
    page.open([plan], "sel=L22&dev=3&view=ledger&theme=dark")
    state = page.run("""
        const {page} = planPage;
        return [page.item.kind, page.item.index, page.device, document.documentElement.dataset.theme];""")
    page.expect(state == ["line", 21, 3, "dark"], f"a link is read as {state}")
    page.run("planPage.page.select({kind: 'axis', index: 1})")
    page.driver.execute_async_script("setTimeout(arguments[0], 150)")
    link = page.run("return location.hash")
    page.expect(link == "#sel=axis%3Amodel&dev=3&view=ledger&theme=dark", f"the link is {link}")
    for id_, kind, rows in ((plan["ops"][4]["id"], "operation", "operations"), ("t3", "value", "values")):
        page.open([plan], f"sel={id_}")
        ids = page.run("const {item, plan} = planPage.page; return item && item.kind === arguments[0] && plan[arguments[1]][item.index].ids", kind, rows)
        page.expect(ids and id_ in ids, f"a link to {id_} selects {ids}")
    page.open([plan], "sel=c999&dev=77&view=nothing&theme=pink")
    page.expect(page.run("return planPage.page.item") is None, "an unknown id selects something")
    page.run("planPage.page.select({kind: 'line', index: 21}); planPage.page.select({kind: 'line', index: 21})")
    page.expect(page.run("return planPage.page.item") is None, "selecting again does not clear")
    page.expect(page.count(".related, .selected") == 0, "something stays lit")


def check_long_ledger(page, compiler):
    """Of many rows the first are there, and the one that is selected."""
    plan = compiler.plan(cases.BLOCKS, *cases.SMALL_BLOCKS, "-D", "layers=60")
    for place, collective in enumerate(plan["collectives"]):
        collective["payload_bytes"] += place
        collective["fold"] = collective["id"]  # no two are alike
    page.open([plan])
    rows = lambda: page.count("#ledger tbody tr[data-index]")
    page.expect(rows() == 200 < len(plan["collectives"]), f"long ledger: {rows()} of {len(plan['collectives'])} rows")
    shown = set(page.run("return [...document.querySelectorAll('#ledger tr[data-index]')].map(row => Number(row.dataset.index))"))
    last = max(set(range(len(plan["collectives"]))) - shown)
    page.select("collective", last)
    page.expect(page.lit("ledger", "selected") == {plan["collectives"][last]["id"]}, f"long ledger: {page.lit('ledger', 'selected')} is selected")
    page.expect(page.count("#ledger tr.selected[aria-expanded=true] + tr.opened") == 1, "long ledger: the selected row is not open")
    page.select("collective", min(shown))
    page.expect(page.count("#ledger tr.opened") == 1, "long ledger: two rows are open")
    page.run("document.querySelector('#ledger .more').click()")
    page.expect(rows() == len(plan["collectives"]), f"long ledger: {rows()} rows of all")


def check_parts(page, compiler):
    """A row for each call and loop, below the one that it is in, those that take most first; rows
    of one level and what is in none add up; a row lights up what is in it and nothing else."""
    plan = compiler.plan(cases.BLOCKS, "--machine", "h100")
    parts = {part["id"]: part for part in plan["parts"]}

    def is_in(entry, part):
        while entry and entry != part:
            entry = parts[entry]["parent"]
        return entry == part

    def amount(part, column):
        return sum(part["at_peak"].values()) if column == "bytes" else part["compute_us"]

    def is_worth(part):
        whole = plan["parts"][0]
        return any(get(part) >= 0.005 * get(whole) for get in (
            lambda of: of["compute_us"] + of["exposed_us"], lambda of: of["flops_per_device"],
            lambda of: of["wire_bytes_per_device"], lambda of: sum(of["at_peak"].values())))

    def expected_order(parent, column):
        inner = [part for part in plan["parts"] if part["parent"] == parent and is_worth(part)]
        for part in sorted(inner, key=lambda part: -amount(part, column)):
            yield part["name"]
            yield from expected_order(part["id"], column)

    page.open([plan])
    for column in ("computed", "bytes"):
        page.run("document.querySelector(`#parts [data-column=${arguments[0]}]`).click()", column)
        names = page.run("""
            const {parts} = planPage.page.plan;
            return [...document.querySelectorAll('#parts tr[data-index]')].map(row => parts[row.dataset.index].name);""")
        page.expect(names == list(expected_order("p0", column)), f"parts: by {column} the rows are {names}")
    page.expect({"layer", "layer/block/attn", "layer/block/ff"} <= set(names), f"parts: the rows are {names}")
    wrong = page.run("""
        const {parts} = planPage.page.plan;
        const fields = ['flops', 'sent', 'computed', 'exposed', 'bytes'];
        return parts.filter(part => fields.some(field => {
          const inner = parts.filter(other => other.parent === part.index);
          const all = inner.reduce((sum, other) => sum + other.whole[field], part.own[field]);
          return part.own[field] < 0 || Math.abs(all - part.whole[field]) > 1e-6;
        })).map(part => part.name);""")
    page.expect(not wrong, f"parts: these are no sums: {wrong}")
    ledger = {collective["id"]: collective["part"] for collective in plan["collectives"]}
    lines = {entry["id"]: (entry["part"], entry["span"]) for kind in ("ops", "tensors") for entry in plan[kind]}
    for part, ids, indices in zip(plan["parts"][1:], *zip(*page.run(browser.LIT + """
            return [...Array(arguments[0]).keys()].slice(1).map(index => {
              planPage.page.select({kind: 'part', index}, true);
              return [lit('ledger', 'related'), [...planPage.page.related.line.keys()]];
            });""", len(parts))), strict=True):
        own = {id_ for id_, of in ledger.items() if is_in(of, part["id"])}
        page.expect(own <= set(ids), f"parts: {part['name']} lights {ids}, not {own}")
        folds = {one["fold"] for one in plan["collectives"] if one["id"] in own}
        others = {one["id"] for one in plan["collectives"] if one["fold"] not in folds}
        page.expect(not others & set(ids), f"parts: {part['name']} lights others")
        lit = {index + 1 for index in indices}
        of = {span["line"] for within, span in lines.values() if span and is_in(within, part["id"])}
        page.expect(lit and lit <= of, f"parts: {part['name']} lights the lines {lit}, of {of}")
    page.run("""document.querySelector("#parts tr[data-index]").click()""")
    page.expect(page.count("#parts tr.selected") == 1, "parts: a click selects no row")
    link = f"p:{plan['parts'][-1]['name']}"
    state = page.follow_each([f"sel={link}"], "return planPage.page.item;")
    page.expect(state == [{"kind": "part", "index": len(parts) - 1}], f"parts: {link} selects {state}")
    page.open([compiler.plan(cases.MLP)])
    page.expect(page.count("#parts") == 0, "parts: a model without calls has some")


def main():
    compiler, page = browser.start()
    with page:
        for name, arguments in {"mlp": [cases.MLP], "convnet": browser.CONVNET, "blocks": [cases.BLOCKS],
                                "blocks-gpus": cases.CASES["blocks-gpus"],
                                "blocks-written-out": cases.CASES["blocks-written-out"],
                                "mlp-uneven": cases.CASES["mlp-uneven"]}.items():
            plan = compiler.plan(*arguments)
            page.open([plan])
            check_lines(page, plan, name)
            check_collectives(page, plan, name)
            check_ledger(page, plan, name)
        for name, arguments in {"mlp": [cases.MLP], "blocks": [cases.BLOCKS, "--machine", "h100"],
                                "GPT-3": browser.FEW_LAYERS}.items():
            plan = compiler.plan(*arguments)
            page.open([plan])
            check_ledger(page, plan, name)
            check_first_lines(page, plan, name)
        check_remarks(page, compiler)
        check_waits(page, compiler)
        check_links(page, compiler.plan(cases.MLP))
        check_long_ledger(page, compiler)
        check_origins(page, compiler)
        check_parts(page, compiler)
        page.finish()


main()
