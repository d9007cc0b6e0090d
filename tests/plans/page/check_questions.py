"""What readers ask of a plan is in sight after three clicks at most, at every width, of a small and a
large plan. Every click is one of the pointer, on what is there to be clicked."""

import browser
import cases
import gpt3

MOST_CLICKS = 3
# Each has 8 devices or more, two plans, and a machine of 80 GB. All layers of GPT-3 are more of
# the same rows: one width is enough.
SAMPLES = {
    "mlp": ([cases.MLP, "--machine", "h100", "--mesh", "data=2,model=4"], "batch=data,pixel=model", "w1", browser.WIDTHS),
    "blocks": ([cases.BLOCKS, "--machine", "h100"], "batch=data", "layer/block/ff/w1", browser.WIDTHS),
    "layers of GPT-3": (browser.FEW_LAYERS, "batch=data", "layer/block/ff/w1", browser.WIDTHS),
    "GPT-3": ([gpt3.SPEC, *gpt3.get_options()], "batch=data", "layer/block/ff/w1", (1280,)),
}


class Reader:
    """Clicks, and counts."""

    def __init__(self, page, plans, value, width, name):
        self.page, self.plan, self.other, self.value = page, *plans, value
        self.width = width
        self.name = name
        self.clicks = 0

    def ask(self, question):
        """From the top of a page on which nothing is selected."""
        self.question = f"{self.name} at {self.width} px: {question}"
        self.clicks = 0
        # The ledger stays as it was sorted, and views stay built: of large plans to open each anew takes long.
        if self.name != "mlp" and question != "what is exposed?" and self.page.count("#verdict"):
            self.page.run("scrollTo(0, 0); planPage.page.select(null)")
        else:
            self.page.open([self.plan, self.other], all_views=False)

    def scroll(self, view):
        """To a view, which is built as it comes near."""
        self.page.run("document.getElementById(arguments[0]).scrollIntoView()", view)
        self.page.driver.execute_async_script("setTimeout(arguments[0], 200)")

    def click(self, selector, text=None):
        element = self.page.run("""
            const [selector, text] = arguments;
            const found = [...document.querySelectorAll(selector)].find(
                element => text === null || element.innerText.trim().startsWith(text));
            found?.scrollIntoView({block: 'center'});
            return found;""", selector, text)
        if not element:
            self.page.fail(f"{self.question} there is no {selector} of {text}")
            return
        element.click()
        self.clicks += 1

    def show(self, view):
        self.click("#top nav button", view)

    def expect(self, selector, *words):
        """What answers is in sight, and has these words."""
        page = self.page
        page.expect(self.clicks <= MOST_CLICKS, f"{self.question} takes {self.clicks} clicks")
        seen, said = page.run(browser.SEEN + """
            const found = document.querySelector(arguments[0]);
            return [isSeen(found), found && found.textContent];""", selector)
        if said is None:
            page.fail(f"{self.question} there is no {selector}")
            return
        page.expect(seen, f"{self.question} {selector} is out of sight after {self.clicks} clicks")
        for word in words:
            page.expect(word in said, f"{self.question} {selector} says {said}, not {word}")


def ask_what_a_device_holds(reader):
    reader.ask("what does device 5 hold of w1?")
    reader.scroll("layout")
    reader.click("#layout tr.pick", reader.value)
    reader.show("Devices")
    reader.click("#devices .device-list button", "dev 5")
    tensor = next(one for one in reader.plan["tensors"] if one["name"] == reader.value)
    ranges = reader.page.run("""
        const {page, heldRanges} = planPage;
        return heldRanges(page.plan, arguments[0], 5).map(([begin, end]) => `${begin}:${end}`);""", tensor["dims"])
    reader.expect("#devices .device-list .selected", "dev 5 ", browser.format_bytes(tensor["bytes_per_device"]),
                  *(range_ for range_, dim in zip(ranges, tensor["dims"]) if dim["axes"]))


def ask_what_causes_the_largest(reader):
    reader.ask("which line causes the largest collective?")
    folds = {}
    for one in reader.plan["collectives"]:
        folds.setdefault(one["fold"], []).append(one)
    sent = {fold: sum(one["repeat"] * one["wire_bytes_per_device"] for one in members) for fold, members in folds.items()}
    largest = max(sent, key=sent.get)
    reader.show("Ledger")
    reader.click("#ledger th button", "sent per step")
    reader.click("#ledger tbody tr.pick")
    span = next(one for one in reader.plan["collectives"] if one["id"] == largest)["span"]
    reader.expect("#ledger tr.selected", largest, browser.format_bytes(sent[largest]), str(span["line"]))
    reader.expect(".inspector .cause li", f"line {span['line']}")
    if reader.width > 1000:
        line = reader.page.run("return planPage.page.plan.lineAt.get(arguments[0])", f"{span['path']}\n{span['line']}")
        reader.expect(f'.line.related[data-index="{line}"]')


def ask_what_is_exposed(reader):
    reader.ask("what is exposed?")
    totals = reader.plan["totals"]
    reader.expect("#verdict .totals > :nth-child(4) .key > :nth-child(2)", "exposed, with nothing computed meanwhile")
    reader.show("Ledger")
    exposed = {}
    for one in reader.plan["transfers"]:
        exposed[one["id"]] = one["exposed_us"]
    reader.page.expect(abs(sum(exposed.values()) - totals["exposed_us"]) < 0.001 * (1 + len(exposed)), f"{reader.question} not all are in the plan")
    first = reader.page.run("return planPage.page.plan.collectives[document.querySelector('#ledger tr.pick').dataset.index].exposed")
    most = reader.page.run("return Math.max(...planPage.page.plan.collectives.map(one => one.exposed))")
    reader.page.expect(first == most > 0, f"{reader.question} the first row has {first} of {most} us")
    reader.expect("#ledger tr.pick", browser.format_time(first))


def ask_whether_it_fits(reader):
    reader.ask("does it fit in 80 GB?")
    peak = reader.plan["memory"]["peak_bytes_per_device"]
    memory = reader.plan["machine"]["memory_bytes"]
    reader.page.expect(80e9 <= memory < 1.1 * 80e9, f"the card has {memory} bytes")
    reader.expect("#verdict h1", "Fits." if peak <= memory else "Does not fit.",
                  browser.format_bytes(peak), browser.format_bytes(memory))
    reader.expect("#verdict .eyebrow", "80 GB")
    reader.page.expect(reader.clicks == 0, f"{reader.question} takes {reader.clicks} clicks")


def ask_what_copies_waste(reader):
    reader.ask("which tensors are copies, and what do they waste?")
    reader.click("#verdict .totals button.link")
    reader.expect("#memory .copied", "are on other devices too", browser.format_bytes(reader.plan["memory"]["peak_bytes_per_device"]))
    reader.expect("#memory table.copied tbody tr")
    reader.expect("#memory table.copied th:nth-child(5)", "of these elsewhere too")


def ask_what_limits_the_step(reader):
    reader.ask("what limits the step?")
    reader.expect("#verdict h1", "waiting for messages")
    reader.expect("#verdict .bounds", "bound by")
    reader.click("#verdict .cost button")
    kind = reader.page.run("return planPage.page.item.kind")
    reader.expect({"line": ".line.selected", "collective": "#ledger tr.selected", "value": "#memory tr.selected"}[kind])


def ask_why_it_is_not_hidden(reader):
    reader.ask("why is this message not hidden?")
    reader.show("Ledger")
    reader.click("#ledger tbody tr.pick")
    transfer = reader.page.run("return Math.max(...planPage.page.plan.json.transfers.filter(({collectives}) => collectives.some(id => planPage.page.plan.collectives[planPage.page.item.index].ids.includes(id))).map(one => one.exposed_us))")
    reader.expect("#ledger tr.opened p.why", browser.format_time(transfer), "nothing is computed meanwhile", "waits for")


def ask_what_is_alive(reader):
    reader.ask("what is alive at the peak?")
    reader.show("Memory")
    reader.expect("#memory svg .peak")
    reader.expect("#memory table.alive tbody tr", browser.format_bytes(max(one["bytes"] for one in reader.plan["memory"]["at_peak"]))
                  if reader.name == "mlp" else "iB")
    reader.expect("#memory .key", "at the peak:", *(browser.format_bytes(reader.plan["memory"][category])
                                                    for category in ("params", "activations")))


def ask_for_time_by_scope(reader):
    parts = [part for part in reader.plan["parts"] if part["parent"]]
    if not parts:
        return
    reader.ask("what takes which part of the time, by scope?")
    reader.show("Scopes")
    outermost = max((part for part in parts if part["parent"] == "p0"), key=lambda part: part["compute_us"])
    reader.expect("#parts tbody tr", outermost["name"], browser.format_time(outermost["compute_us"]))


def ask_for_another_layout(reader):
    reader.ask("what would another layout do?")
    reader.show("Compare")
    plans = (reader.plan, reader.other)
    reader.expect("#compare .compared", *(browser.format_bytes(plan["memory"]["peak_bytes_per_device"]) for plan in plans),
                  *(browser.format_time(plan["totals"]["step_us"]) for plan in plans))


QUESTIONS = (ask_what_a_device_holds, ask_what_causes_the_largest, ask_what_is_exposed, ask_whether_it_fits,
             ask_what_copies_waste, ask_what_limits_the_step, ask_why_it_is_not_hidden, ask_what_is_alive,
             ask_for_time_by_scope, ask_for_another_layout)


def main():
    compiler, page = browser.start()
    with page:
        for name, (arguments, layout, value, widths) in SAMPLES.items():
            plans = [compiler.plan(*arguments), compiler.plan(*arguments, "--layout", layout)]
            for width in widths:
                page.resize(width, 900)
                page.driver.get("about:blank")
                reader = Reader(page, plans, value, width, name)
                most = []
                for question in QUESTIONS:
                    question(reader)
                    most.append(reader.clicks)
                print(f"{name} at {width} px: clicks {most}")
        page.finish()


main()
