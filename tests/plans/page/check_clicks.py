"""A click in the verdict shows what it selects, at every width."""

import browser
import cases
import gpt3

MACHINE = ["--machine", "h100"]
SAMPLES = {"mlp": [cases.MLP], "mlp on H100": [cases.MLP, *MACHINE],
           "blocks": [cases.BLOCKS, *MACHINE, "--try", "batch=data"],
           "convnet": [*browser.CONVNET, *MACHINE], "does not fit": [cases.MLP, "--memory", "4MiB"],
           "GPT-3": [gpt3.SPEC, *gpt3.get_options()]}
# Where an item of a kind is shown.
SHOWN = {"axis": "#mesh .selected", "collective": "#ledger tr.selected", "line": ".line.selected",
         "value": "#memory tr.selected"}


def check_verdict(page, name, width):
    buttons = page.count("#verdict button")
    page.expect(buttons > 4, f"{name}: the verdict has {buttons} buttons")
    kinds = set()
    for place in range(buttons):
        text = page.run("""
            const {page} = planPage;
            page.select(null);
            scrollTo(0, 0);
            const button = document.querySelectorAll('#verdict button')[arguments[0]];
            button.click();
            return button.textContent;""", place)
        item = page.run("const {item} = planPage.page; return item && item.kind")
        kinds.add(item)
        shown = SHOWN[item] if item else "#copies" if "copies" in text else "#memory"
        # An axis over which nothing is sent has no row.
        if item == "axis" and not page.count(shown):
            shown = "#mesh .device-box.in"
        page.expect(page.is_seen(shown), f"{name}: at {width} px {text} selects a {item}, which is out of sight")
    page.expect({"axis", "line"} <= kinds, f"{name}: the verdict selects {kinds}")


def main():
    compiler, page = browser.start()
    with page:
        for name, arguments in SAMPLES.items():
            page.open_plan(compiler, *arguments)
            for width in browser.WIDTHS:
                page.resize(width, 900)
                check_verdict(page, name, width)
        page.finish()


main()
