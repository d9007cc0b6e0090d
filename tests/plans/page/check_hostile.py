"""Names of a spec are text: markup in them does nothing, and marks that reorder are shown."""

import browser
import cases

MARKUP = "</script><img src=x onerror=\"window.hit=1\"><!--<script>"
REVERSED = "safe\u202egnp.exe\u2066\u200b"


def rename(plan, old, new):
    """The plan with a name replaced wherever it is a whole text or the end of one."""
    def visit(node):
        if isinstance(node, dict):
            return {key: visit(value) for key, value in node.items()}
        if isinstance(node, list):
            return [visit(value) for value in node]
        if isinstance(node, str) and (node == old or node.endswith((" " + old, "/" + old))):
            return node[:len(node) - len(old)] + new
        return node
    return visit(plan)


def main():
    compiler, page = browser.start()
    with page:
        plan = compiler.plan(cases.MLP, "--machine", "h100")
        for old, new in (("w1", MARKUP), ("h", REVERSED), ("hidden", MARKUP + REVERSED), ("mlp", MARKUP), ("model", MARKUP + "axis")):
            plan = rename(plan, old, new)
        plan["spec"]["files"][0]["text"] += f"// {MARKUP} {REVERSED} @SCRIPT@ @STYLE@\n"
        plan["machine"]["label"] = MARKUP
        page.open([plan, plan])
        for index in range(len(page.run("return planPage.page.plan.values.map(value => value.id)"))):
            page.select("value", index)
        for index in range(len(page.run("return planPage.page.plan.collectives.map(one => one.id)"))):
            page.select("collective", index)
        page.press("/")
        page.expect(page.count("img") == 0, "an image came from a name")
        page.expect(page.count("script") == 3, "a script came from a name")
        page.expect(page.run("return window.hit") is None, "a script of a name ran")
        text = page.text()
        page.expect(MARKUP in text, "the name is not on the page as it is")
        page.expect("safe‹U+202E›gnp.exe‹U+2066›‹U+200B›" in text, "marks are not shown")
        hidden = page.run("""
            const marks = /[\\u202a-\\u202e\\u2066-\\u2069\\u200b]/;
            const found = [];
            const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_ALL);
            for (let node = walk.currentNode; node; node = walk.nextNode()) {
              if (node.parentElement && node.parentElement.closest('script')) continue;
              if (node.nodeType === 3 && marks.test(node.data)) found.push(node.data);
              if (node.nodeType === 1) for (const attribute of node.attributes) if (marks.test(attribute.value)) found.push(attribute.name);
            }
            return found;""")
        page.expect(not hidden, f"marks are left as they are: {hidden[:5]}")
        data = browser.unpack(page.run("return document.getElementById('plan').textContent"))
        page.expect(data == [plan, plan], "the data is not what was put in")
        page.finish()


main()
