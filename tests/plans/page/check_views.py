"""Every view has content, with and without a machine, at three widths, light and dark; the
page fetches nothing and says nothing to the console."""

import browser
import cases

MACHINE = ["--machine", "h100"]
WIDTHS = (800, 1280, 1920)


def check_content(page, name):
    for view in browser.VIEWS:
        shown = page.run("""
            const view = document.getElementById(arguments[0]);
            return [view.textContent.trim().length, view.getBoundingClientRect().height];""", view)
        page.expect(shown[0] > 60 and shown[1] > 100, f"{name}: {view} has no content: {shown}")
    for word in ("undefined", "NaN", "[object", "Infinity"):
        page.expect(word not in page.text("#main"), f"{name}: the page says {word}")


def check_width(page, name, width):
    page.resize(width, 900)
    page.run("dispatchEvent(new Event('resize'))")
    page.driver.set_script_timeout(5)
    page.driver.execute_async_script("setTimeout(arguments[0], 200)")
    overflow = page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.expect(overflow <= 0, f"{name}: {overflow} px wider than {width} px")
    # Text of a drawing is neither scaled nor cut off.
    cut = page.run("""
        const cut = [];
        for (const picture of document.querySelectorAll('.view svg')) {
          const frame = picture.getBoundingClientRect();
          for (const text of picture.querySelectorAll('text')) {
            const box = text.getBoundingClientRect();
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1 || box.top < frame.top - 4)
              cut.push(`${picture.closest('section').id}: ${text.textContent}`);
          }
        }
        return cut;""")
    for text in cut:
        page.fail(f"{name}: cut off at {width} px: {text}")


def check_graph(page, compiler):
    """Every row of a phase is drawn or listed once; no two nodes overlap; loops have a frame; selecting dims the rest."""
    page.open_plan(compiler, cases.BLOCKS, *MACHINE)
    rows = page.run("""
        const {plan} = planPage.page;
        return [...plan.operations.map(row => [row.phase, row.id]), ...plan.collectives.map(row => [row.phase, row.id])];""")
    for place, phase in enumerate(("forward", "backward", "update"), 1):
        page.run("document.querySelector(`#graph .choice button:nth-child(${arguments[0]})`).click()", place)
        drawn, listed = page.count("#graph .node"), page.count("#graph .unread tr, #graph .operations tbody tr")
        of_phase = sum(row[0] == phase for row in rows)
        page.expect(drawn + listed == of_phase, f"graph: {drawn} nodes and {listed} rows of {of_phase} of {phase}")
        page.expect(drawn > 2 or phase == "update", f"graph: {drawn} nodes of {phase}")
        bars = page.run("return [...document.querySelectorAll('#graph .node.sent rect:not(.back)')].filter(bar => getComputedStyle(bar).fill === 'none').length")
        page.expect(bars == 0, f"graph: {bars} bars of {phase} have no fill")
        overlaps = page.run("""
            const boxes = [...document.querySelectorAll('#graph .node .back')].map(box => box.getBoundingClientRect());
            return boxes.flatMap((a, place) => boxes.slice(place + 1).filter(b =>
              a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length;""")
        page.expect(overlaps == 0, f"graph: {overlaps} nodes of {phase} overlap")
    page.run("document.querySelector('#graph .choice button').click()")
    page.expect(page.text("#graph .frame-text") == "layer/#, × 4", f"graph: the frame is {page.text('#graph .frame-text')}")
    page.expect(page.count("#graph .edge.back") > 0, "graph: nothing is carried from one layer to the next")
    page.select("collective", 0)
    page.expect(page.count("#graph .dims .node.selected") == 1, "graph: the selected collective is not lit")


def check_theme(page, name):
    """The same contrast of 4.5 for all text of an axis cell and of the page, in both themes."""
    for theme in ("light", "dark"):
        page.run("document.documentElement.dataset.theme = arguments[0]", theme)
        low = page.run("""
            const luminance = color => {
              const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
            const probe = document.createElement('span');
            document.body.append(probe);
            const value = name => { probe.style.setProperty('color', `var(${name})`); return getComputedStyle(probe).color; };
            const low = [];
            for (const ink of ['--ink', '--ink2', '--ink3', '--over'])
              for (const back of ['--bg', '--raise']) if (contrast(value(ink), value(back)) < 4.5) low.push(`${ink} on ${back}`);
            for (let axis = 0; axis < 6; ++axis) {
              if (contrast(value('--on-axis'), value('--a' + axis)) < 4.5) low.push(`--on-axis on --a${axis}`);
              if (contrast(value('--a' + axis), value('--bg')) < 4.5) low.push(`--a${axis} on --bg`);
            }
            probe.remove();
            return low;""")
        for pair in low:
            page.fail(f"{name}: contrast under 4.5 in {theme}: {pair}")


def main():
    compiler, page = browser.start()
    with page:
        samples = {"mlp": [cases.MLP], "convnet": browser.CONVNET, "blocks": [cases.BLOCKS],
                   "mlp-two-axes": cases.CASES["mlp-two-axes"]}
        for sample, arguments in samples.items():
            for machine in ([], MACHINE):
                name = f"{sample} {' '.join(machine)}".strip()
                page.resize(1280, 900)
                page.open_plan(compiler, *arguments, *machine)
                check_content(page, name)
                untimed = "No machine was named" in page.text("#verdict")
                page.expect(untimed != bool(machine), f"{name}: the verdict and the machine disagree")
                for view in ("ledger", "timeline"):
                    said = "o machine was named" in page.text(f"#{view}")
                    page.expect(said != bool(machine), f"{name}: {view} and the machine disagree")
                for width in WIDTHS:
                    check_width(page, name, width)
        check_theme(page, sample)
        page.resize(1280, 900)
        check_graph(page, compiler)
        other = compiler.plan(cases.MLP, "--layout", "batch=data,pixel=model")
        page.open([compiler.plan(cases.MLP), other])
        page.expect("values are split otherwise" in page.text("#compare"), "compare: no values")
        page.expect(page.count("#compare tbody tr") > 4, "compare: no rows")
        page.finish()


main()
