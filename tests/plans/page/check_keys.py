"""Everything can be done without a pointer: each of the first ten views is reached by its digit and
something in it is chosen by keys alone; rows, nodes of the graph, the palette, devices, the window."""

import pathlib
import tempfile

import browser
import cases
from browser import Keys

# What Enter selects after the keys, in the view of the digit; None: it chooses a device.
CHOSEN = {
    "verdict": ("1", [Keys.TAB], "axis"),
    "source": ("2", [Keys.ARROW_DOWN], "line"),
    "layout": ("3", [Keys.ARROW_DOWN], "value"),
    "devices": ("4", [Keys.ARROW_DOWN, Keys.ARROW_DOWN], None),
    "graph": ("6", [Keys.ARROW_DOWN], "operation"),
    "ledger": ("7", [Keys.ARROW_DOWN, Keys.ARROW_DOWN], "collective"),
    "timeline": ("8", [Keys.ARROW_DOWN, Keys.ARROW_RIGHT], "operation"),
    "memory": ("9", [Keys.ARROW_DOWN], "value"),
    "compare": ("0", [Keys.ARROW_DOWN], "value"),
}


def check_tab(page, name, views):
    """Tab alone reaches every view from the top of the page, which are built as it comes near,
    and what it reaches is in sight."""
    # What has the focus is looked at when the key is up again, which is after it has done its work.
    page.run("""
        document.querySelector('.skip').focus();
        document.querySelector('.skip').blur();
        window.stops = [];
        addEventListener('keyup', () => {
          const {activeElement} = document;
          const view = activeElement.closest('section.view, .left');
          const mark = activeElement.matches('section.view') ? activeElement.querySelector('h1, h2') : activeElement;
          const {top, bottom, height} = mark ? mark.getBoundingClientRect() : {top: -1, bottom: 0, height: 0};
          stops.push([view && (view.id || 'source'), activeElement.tagName + ' ' + activeElement.textContent.slice(0, 40),
                      height > 0 && top >= 0 && bottom <= innerHeight + 1 || height > innerHeight - 60]);
        });""")
    reached, hidden = [], []
    for at_once in [15] * 60:
        page.press(*[Keys.TAB] * at_once)
        stops = page.run("return stops.splice(0)")
        page.expect(len(stops) == at_once, f"{name}: {len(stops)} of {at_once} keys were seen")
        has_left = False
        for view, at, seen in stops:
            if view and view not in reached:
                reached.append(view)
            if view and not seen:
                hidden.append((view, at))
            has_left = bool(reached) and at.startswith("BODY")
            if has_left:
                break
        if has_left:
            break
    page.expect(reached == views, f"{name}: Tab reaches {reached}, expected {views}")
    page.expect(not hidden, f"{name}: Tab leads to what is out of sight: {hidden[:5]}")


def get_item(page):
    return page.run("const {item} = planPage.page; return item && [item.kind, item.index]")


def get_focus(page):
    """The view, the list and the index of what has the focus, and whether that is seen."""
    return page.run("""
        const focused = document.activeElement;
        const {left, right, top, bottom} = focused.getBoundingClientRect();
        const {outlineStyle} = getComputedStyle(focused);
        const view = focused.closest('section.view, .left');
        return {view: view && (view.id || 'source'), list: focused.closest('[data-list]')?.dataset.list,
                index: focused.dataset.index,
                seen: outlineStyle !== 'none' && left >= 0 && right <= innerWidth && top >= 52 && bottom <= innerHeight};""")


def check_views(page):
    """Each view is entered by its digit, and something in it chosen."""
    for view, (digit, keys, kind) in CHOSEN.items():
        page.press(Keys.ESCAPE, digit, *keys)
        focus = get_focus(page)
        page.expect(focus["view"] == view and focus["seen"], f"{view}: {digit} and {len(keys)} keys lead to {focus}")
        before = page.run("return planPage.page.device")
        page.press(Keys.ENTER)
        if kind:
            page.expect((get_item(page) or [None])[0] == kind, f"{view}: Enter selects {get_item(page)}")
        else:
            page.expect(page.run("return planPage.page.device") != before, f"{view}: Enter chooses no device")
        # The verdict leads to where it is told in full.
        follows = "mesh" if view == "verdict" else view
        page.expect(get_focus(page)["view"] == follows, f"{view}: Enter loses the focus: {get_focus(page)}")
    page.press(Keys.ESCAPE, "5", Keys.ARROW_RIGHT)
    own = page.run("return [...document.querySelectorAll('.device-box')].findIndex(box => box.classList.contains('own'))")
    page.expect(own == page.run("return planPage.page.device"), f"mesh: the arrows show device {own}")


def check_nodes(page):
    """Left and right lead to every node of a phase, up and down along its edges."""
    page.press(Keys.ESCAPE, "6")
    for phase in ("forward", "backward"):
        page.press("6", Keys.TAB, *([Keys.TAB] if phase == "backward" else []), Keys.ENTER, Keys.ARROW_DOWN, Keys.HOME)
        pressed = page.run("return document.querySelector('#graph .choice [aria-pressed=true]').textContent")
        page.expect(pressed == phase, f"graph: Tab and Enter show {pressed}")
        edges = page.run("return planPage.page.plan.json.graph.edges.map(edge => [edge.from, edge.to])")
        nodes = page.run("return [...document.querySelectorAll('#graph .node')].map(node => node.dataset.index)")
        stops = page.count("#graph .node[tabindex='0']")
        page.expect(stops == 1, f"graph: Tab stops at {stops} nodes of {phase}")
        seen, out_of_sight = [], []
        for _ in nodes:
            focus = get_focus(page)
            seen.append(focus["index"])
            if not focus["seen"]:
                out_of_sight.append(focus["index"])
            page.press(Keys.ARROW_RIGHT)
        page.expect(sorted(seen) == sorted(nodes), f"graph: the right arrow leads to {len(set(seen))} of {len(nodes)} nodes of {phase}")
        page.expect(not out_of_sight, f"graph: nodes of {phase} have the focus out of sight: {out_of_sight}")
        page.press(Keys.HOME)
        path = [get_focus(page)["index"]]
        while len(path) < 2 or path[-1] not in path[:-1]:
            page.press(Keys.ARROW_DOWN)
            path.append(get_focus(page)["index"])
        page.expect(len(path) > 6, f"graph: down leads along {path} of {phase}")
        for step in zip(path, path[1:-1]):
            page.expect(list(step) in edges, f"graph: down goes from {step[0]} to {step[1]}, where no edge is")
        page.press(Keys.ARROW_UP)
        page.expect([get_focus(page)["index"], path[-1]] in edges, f"graph: up goes from {path[-1]} to {get_focus(page)['index']}")
        tip = page.text(".tip:not(.hidden)") if page.count(".tip:not(.hidden)") else ""
        page.expect(tip, "graph: the node with the focus says nothing")
        page.press(" ")
        page.expect(page.count("#graph .node.selected:focus") == 1, "graph: the space key selects no node")


def check_commands(page):
    """Left and right lead beyond the window of the timeline, up and down from lane to lane."""
    page.press(Keys.ESCAPE, "8", Keys.ARROW_DOWN, Keys.HOME)
    first = page.run("return planPage.page.plan.schedule[0]")
    page.expect(get_focus(page)["index"] == first, f"timeline: Home leads to {get_focus(page)}, expected {first}")
    page.press(Keys.END)
    index, runs = get_focus(page)["index"], page.run("return planPage.page.track.runs.map(run => run.id)")
    page.expect(index == runs[-1], f"timeline: End leads to {index}, expected {runs[-1]}")
    for step in range(1, 4):
        page.press(Keys.ARROW_LEFT)
        index = get_focus(page)["index"]
        page.expect(index == runs[-1 - step], f"timeline: left leads to {index}, expected {runs[-1 - step]}")
    page.press("-", "-", "-", "-", "-", "-", Keys.ARROW_DOWN)
    index = get_focus(page)["index"]
    page.expect(index and index.startswith("x"), f"timeline: down leads to {index}")
    page.press(Keys.ENTER)
    page.expect((get_item(page) or [None])[0] == "collective", f"timeline: Enter selects {get_item(page)}")


def check_alias(page, compiler):
    """A second name of a value is no value of the plan; the palette finds the line that gives it."""
    with tempfile.TemporaryDirectory(prefix="meshc-page-") as folder:
        text = (pathlib.Path(compiler.root) / cases.MLP).read_text(encoding="utf-8")
        renamed = text.replace("  let h      = relu(einsum(scaled, w1 ", "  let used = w1\n  let h      = relu(einsum(scaled, used ")
        assert renamed != text, f"{cases.MLP} has no such line"
        spec = pathlib.Path(folder) / "alias.mesh"
        spec.write_text(renamed, encoding="utf-8")
        plan = compiler.plan(str(spec))
    page.open([plan])
    page.press("/", "let used", Keys.ENTER)
    line = page.run("const {item, plan} = planPage.page; return item && item.kind === 'line' && plan.lines[item.index].text.trim()")
    page.expect(line == "let used = w1", f"the palette finds {line} by the second name of w1")
    page.expect(page.is_seen(".line.selected"), "the line that the palette finds is out of sight")


def main():
    compiler, page = browser.start()
    with page:
        views = ["verdict", "source", *browser.VIEWS[1:]]
        page.open([compiler.plan(cases.MLP)], all_views=False)
        check_tab(page, "mlp", views)
        page.resize(800, 900)
        page.open([compiler.plan(cases.MLP)], all_views=False)
        check_tab(page, "mlp at 800 px", views)
        page.resize(1280, 900)
        page.open([compiler.plan(*browser.FEW_LAYERS)] * 2, all_views=False)
        check_tab(page, "layers of GPT-3", [*views, "compare", "parts"])
        page.open_plan(compiler, cases.BLOCKS, "--machine", "h100", "--try", "batch=data")
        check_views(page)
        check_nodes(page)
        check_commands(page)
        plan = compiler.plan(cases.BLOCKS, "--machine", "h100")
        page.open([plan])
        item = lambda: get_item(page)

        page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        focused = page.run("return document.activeElement.dataset.index")
        page.expect(focused == "1", f"the arrows are at line {focused}")
        page.press(Keys.ENTER)
        page.expect(item() == ["line", 1], f"Enter selects {item()}")
        page.expect(page.run("return document.activeElement.dataset.index") == "1", "the focus is lost")
        page.press(Keys.ESCAPE)
        page.expect(item() is None, "Escape does not clear")

        # Rows of the ledger, entered by Tab; the row keeps the focus when it opens.
        page.press("7")
        view = page.run("return planPage.page.view")
        page.expect(view == "ledger", f"7 shows {view}")
        page.run("document.querySelector('#ledger th button').focus()")
        page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        page.expect(item() and item()[0] == "collective", f"Enter in the ledger selects {item()}")
        page.expect(page.count("#ledger tr.opened") == 1, "no row is open")
        page.expect(page.run("return document.activeElement.getAttribute('aria-expanded')") == "true", "the open row has lost the focus")
        page.press(Keys.ESCAPE)
        page.expect(page.count("#ledger tr.opened") == 0, "the row stays open")

        page.press("/")
        page.expect(page.count("[role=dialog]") == 1, "/ opens nothing")
        page.press("dev 5", Keys.ENTER)
        page.expect(page.run("return planPage.page.device") == 5, "the palette finds no device")
        page.press("/", "c7", Keys.ENTER)
        page.expect("c7" in page.lit("ledger", "selected"), "the palette finds no member of a fold")
        for id_ in ("o4", *{plan["ops"][place]["id"] for place in (0, -1)}):
            page.press(Keys.ESCAPE, "/", id_, Keys.ENTER)
            ids = page.run("const {item, plan} = planPage.page; return item && item.kind === 'operation' && plan.operations[item.index].ids")
            page.expect(ids and id_ in ids, f"the palette finds {item()} by {id_}")
            label = page.run("return document.querySelector(`#timeline [data-index='${arguments[0]}']`)?.getAttribute('aria-label')", id_)
            name = next(one["name"] for one in plan["ops"] if one["id"] == id_)
            page.expect(label and label.startswith(name), f"{id_} is out of the window of the timeline, which has {label}")
        page.press(Keys.ESCAPE, "/", "t3", Keys.ENTER)
        page.expect(page.run("const {item, plan} = planPage.page; return item && plan.values[item.index].ids.includes('t3')"), f"the palette finds {item()} by t3")
        page.press(Keys.ESCAPE, "/", plan["transfers"][1]["id"], Keys.ENTER)
        page.expect(plan["transfers"][1]["largest"] in page.lit("ledger", "selected"), f"the palette finds {item()} by a transfer")
        page.press(Keys.ESCAPE, "/", "device 6", Keys.ENTER)
        page.expect(page.run("return planPage.page.device") == 6, "the palette finds no device by its whole word")
        page.press("/", "dev 5", Keys.ENTER)
        page.press(Keys.ESCAPE, "/", "wq", Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
        page.expect(item() and item()[0] == "value", f"the palette selects {item()}")
        page.press("/", "operation scores backward", Keys.ENTER)
        page.expect(item() and item()[0] == "operation", f"the palette finds no operation but {item()}")
        page.press("/", "wq", Keys.ENTER, "/", Keys.ESCAPE)
        page.expect(page.count("[role=dialog]") == 0, "the palette stays open")
        page.expect(item() and item()[0] == "value", "closing the palette clears the selection")

        page.press("1", Keys.ARROW_RIGHT)
        page.expect(page.run("return planPage.page.device") == 6, "the right arrow changes no device")
        page.press(Keys.ARROW_LEFT)
        page.expect(page.run("return planPage.page.device") == 5, "the left arrow changes no device")
        page.press("8", "-", "-", "-", "-")
        before = page.run("return planPage.page.window")
        page.press("+")
        inner = page.run("return planPage.page.window")
        page.expect(inner[1] - inner[0] < before[1] - before[0], f"+ makes {before} {inner}")
        page.press(Keys.ARROW_RIGHT)
        page.expect(page.run("return planPage.page.window")[0] > inner[0], "the right arrow pans nothing")

        page.press("t")
        theme = page.run("return document.documentElement.dataset.theme")
        page.press("t")
        page.expect(theme in ("dark", "light") and theme != page.run("return document.documentElement.dataset.theme"), "t changes no theme")
        page.press("?")
        page.expect("zoom the timeline" in page.text("[role=dialog]"), "? says nothing")
        page.press(Keys.ESCAPE)
        check_alias(page, compiler)
        # Keys are text in a field.
        page.run("document.querySelector('#layout input').focus()")
        page.press("t1/")
        page.expect(page.run("return document.querySelector('#layout input').value") == "t1/", "a field loses keys")
        page.finish()


main()
