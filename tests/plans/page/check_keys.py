"""Everything can be done without a pointer: views, rows, the palette, devices, the window."""

import browser
import cases
from browser import Keys


def main():
    compiler, page = browser.start()
    with page:
        plan = compiler.plan(cases.BLOCKS, "--machine", "h100")
        page.open([plan])
        item = lambda: page.run("const {item} = planPage.page; return item && [item.kind, item.index]")

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
        # Keys are text in a field.
        page.run("document.querySelector('#layout input').focus()")
        page.press("t1/")
        page.expect(page.run("return document.querySelector('#layout input').value") == "t1/", "a field loses keys")
        page.finish()


main()
