"""Opens pages of plans in headless Chromium and says what they did."""

import base64
import decimal
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.keys import Keys
except ImportError:
    sys.exit("no Selenium for this Python: run '.ci/install-packages test'")

import compiler  # noqa: E402, of the folder above
import gpt3  # noqa: E402

# What every check looks at: the page has each of these views.
VIEWS = ("verdict", "layout", "devices", "mesh", "graph", "ledger", "timeline", "memory")
WIDTHS = (800, 1280, 1920)
CONVNET = ["samples/convnet.mesh", "--mesh", "data=2,rows=3"]
# GPT-3 on as many devices with a few of its layers: layers that are alike are one row, so that
# the page has the same rows and is planned and opened in a tenth of the time.
FEW_LAYERS = [gpt3.SPEC, *gpt3.get_options(layers=6)]

ANSWER = '<script type="application/json" id="answer">'
PLAN = '<script type="application/octet-stream" id="plan">'
# Of the first plan, what the headline says.
ANSWERED = ("model", "program", "target", "devices", "mesh", "machine", "totals", "memory")


def pack(plans):
    return base64.b64encode(zlib.compress(json.dumps(plans).encode())).decode()


def unpack(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def format_scaled(size, step, units):
    """Three digits, in the largest unit of which there is one."""
    while len(units) > 1 and size >= step * 0.9995:
        size /= step
        units = units[1:]
    number = decimal.Decimal(size)
    digits = decimal.Decimal(10) ** min(0, number.adjusted() - 2)
    rounded = number.quantize(digits, decimal.ROUND_HALF_UP)
    return f"{rounded.normalize():f}\u00a0{units[0]}"


def format_bytes(size):
    return format_scaled(size, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])


def format_time(us):
    if 0 < us < 1:
        return format_scaled(us * 1000, 1000, ["ns", "µs"])
    return format_scaled(us, 1000, ["µs", "ms", "s"])


def get_answer(plan):
    answer = {field: plan[field] for field in ANSWERED if field in plan}
    lists = ("at_peak", "buffers")
    answer["memory"] = {field: value for field, value in plan["memory"].items() if field not in lists}
    return answer


def make_template(meshc, root):
    """The page that meshc writes, with places for other plans: its policy knows none."""
    page = subprocess.run([meshc, "plan", "samples/mlp.mesh", "--emit", "html"], cwd=root,
                          capture_output=True, text=True, check=True).stdout
    for start, place in ((ANSWER, "@ANSWER@"), (PLAN, "@DATA@")):
        head, rest = page.split(start, 1)
        data, tail = rest.split("</script>", 1)
        page = f"{head}{start}{place}</script>{tail}"
        if start == ANSWER:
            answer = json.loads(data)
    assert answer == get_answer(unpack(data)[0]) and answer["model"] == "mlp"
    return page


# Whether an element, or the beginning of it, is in sight and nothing covers it.
SEEN = """
    const isSeen = element => {
      if (!element) return false;
      const {left, top, width, height} = element.getBoundingClientRect();
      const [x, y] = [left + Math.min(width / 2, 60), top + Math.min(height / 2, 12)];
      const found = document.elementFromPoint(x, y);
      return !!found && element.contains(found);
    };"""
LIT = """
    const lit = (view, kind) => {
      const {plan} = planPage.page;
      const list = {layout: plan.values, ledger: plan.collectives, graph: plan.operations}[view];
      return [...document.querySelectorAll(`#${view} tr[data-index].${kind}`)]
          .flatMap(row => list[row.dataset.index].ids);
    };"""


class Browser:
    def __init__(self, meshc, root, width=1280, height=900):
        self.template = make_template(meshc, root)
        self.folder = tempfile.TemporaryDirectory(prefix="meshc-page-")
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        arguments = ["--headless=new", "--hide-scrollbars", "--disable-background-networking",
                     f"--user-data-dir={self.folder.name}/profile"]
        # Containers run as root, where the sandbox cannot start.
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        for argument in arguments:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.resize(width, height)
        self.problems = []
        self.pages = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        self.folder.cleanup()

    def resize(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def settle(self):
        """Until the views are drawn for the width, which they are a moment after it changes."""
        self.driver.execute_async_script("setTimeout(arguments[0], 200)")

    def open(self, plans, link="", all_views=True):
        """Opens a page of these plans with every view built, and checks that it fetched nothing."""
        answer = json.dumps(get_answer(plans[0])).replace("<", "\\u003c")
        self.visit(self.template.replace("@ANSWER@", answer, 1).replace("@DATA@", pack(plans), 1), link, all_views)

    def open_plan(self, compiler, *arguments, link=""):
        """The same of the page that meshc writes of a spec."""
        self.visit(compiler.run("plan", *arguments, "--emit", "html"), link, True)

    def visit(self, page, link, all_views):
        self.pages += 1
        path = pathlib.Path(self.folder.name) / f"plan{self.pages}.html"
        path.write_text(page, encoding="utf-8")
        self.take_log()
        self.address = path.as_uri()
        self.driver.get(self.address + (f"#{link}" if link else ""))
        self.driver.execute_async_script("""
            const [allViews, done] = arguments;
            const look = () => {
              if (!window.planPage) return setTimeout(look, 5);
              if (allViews)
                for (const name of ['beforeprint', 'afterprint']) dispatchEvent(new Event(name));
              done();
            };
            look();""", all_views)
        self.check_quiet()

    def take_log(self):
        return self.driver.get_log("browser"), self.driver.get_log("performance")

    def check_quiet(self):
        """No message of the console, no request but for the file itself."""
        console, network = self.take_log()
        for entry in console:
            self.fail(f"console: {entry['message']}")
        for entry in network:
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = message["params"]["request"]["url"].split("#")[0]
                if address not in (self.address, "about:blank"):
                    self.fail(f"request: {address}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def select(self, kind, index):
        self.run("planPage.page.select({kind: arguments[0], index: arguments[1]}, true)", kind, index)

    def lit(self, view, kind="related"):
        """Ids of the members of what is lit in a view with rows."""
        return set(self.run(LIT + "return lit(arguments[0], arguments[1]);", view, kind))

    def lit_by_each(self, kind, count):
        """What is lit in the ledger by each item of a kind, the first `count`."""
        return [set(ids) for ids in self.run(LIT + """
            const [kind, count] = arguments;
            return [...Array(count).keys()].map(index => {
              planPage.page.select({kind, index}, true);
              return lit('ledger', 'related');
            });""", kind, count)]

    def follow_each(self, links, script):
        """What a script returns after each of these links, which are links to this page: one
        may come in the moment in which the page writes the link of what was selected before."""
        return self.driver.execute_async_script(LIT + """
            const [links, done] = arguments;
            const look = () => {%s};
            (async () => {
              const found = [];
              for (const link of links) {
                const heard = new Promise(end => addEventListener('hashchange', end, {once: true}));
                location.hash = link;
                await heard;
                found.push(look());
              }
              done(found);
            })();""" % script, links)

    def is_seen(self, selector):
        """Whether the first such element is in sight."""
        return self.run(SEEN + "return isSeen(document.querySelector(arguments[0]));", selector)

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def fail(self, problem):
        self.problems.append(problem)

    def expect(self, condition, problem):
        if not condition:
            self.fail(problem)

    def finish(self):
        self.check_quiet()
        if self.problems:
            sys.exit("\n".join(self.problems[:40]))


def start():
    """The compiler and the browser of a check, from its arguments."""
    meshc, root = sys.argv[1:3]
    return compiler.Compiler(meshc, root), Browser(meshc, root)
