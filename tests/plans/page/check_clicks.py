"""A click in the verdict shows what it selects, at every width."""

import browser
import cases

MACHINE = ["--machine", "h100"]
SAMPLES = {"mlp": [cases.MLP], "mlp on H100": [cases.MLP, *MACHINE],
           "blocks": [cases.BLOCKS, *MACHINE, "--try", "batch=data"],
           "convnet": [*browser.CONVNET, *MACHINE], "does not fit": [cases.MLP, "--memory", "4MiB"],
           "GPT-3": browser.FEW_LAYERS}
# Where an item of a kind is shown.
SHOWN = {"axis": "#mesh .selected", "collective": "#ledger tr.selected", "line": ".line.selected",
         "value": "#memory tr.selected"}


def check_verdict(page, name, width):
    clicked = page.run(browser.SEEN + """
        const {page} = planPage;
        const [selectors] = arguments;
        const find = selector => document.querySelector(selector);
        return [...document.querySelectorAll('#verdict button')].map(button => {
          page.select(null);
          scrollTo(0, 0);
          button.click();
          const kind = page.item && page.item.kind;
          const text = button.textContent;
          const selector = kind ? selectors[kind] : text.includes('copies') ? '#copies' : '#memory';
          // An axis over which nothing is sent has no row.
          const shown = find(selector) || kind === 'axis' && find('#mesh .device-box.in');
          return [text, kind, isSeen(shown)];
        });""", SHOWN)
    page.expect(len(clicked) > 4, f"{name}: the verdict has {len(clicked)} buttons")
    for text, kind, seen in clicked:
        page.expect(seen, f"{name}: at {width} px {text} selects a {kind}, which is out of sight")
    kinds = {kind for _, kind, _ in clicked}
    page.expect({"axis", "line"} <= kinds, f"{name}: the verdict selects {kinds}")


def main():
    compiler, page = browser.start()
    with page:
        for name, arguments in SAMPLES.items():
            page.open_plan(compiler, *arguments)
            for width in browser.WIDTHS:
                page.resize(width, 900)
                page.settle()
                check_verdict(page, name, width)
        page.finish()


main()
