"""Every view has content, with and without a machine, at three widths, light and dark; the
page fetches nothing and says nothing to the console."""

import pathlib
import re
import tempfile

import browser
import cases

MACHINE = ["--machine", "h100"]


def check_content(page, name):
    for view, shown in zip(browser.VIEWS, page.run("""
            return arguments[0].map(id => document.getElementById(id)).map(
                view => [view.textContent.trim().length, view.getBoundingClientRect().height]);""", browser.VIEWS), strict=True):
        page.expect(shown[0] > 60 and shown[1] > 100, f"{name}: {view} has no content: {shown}")
    said = page.text("#main")
    for word in ("undefined", "NaN", "[object", "Infinity"):
        page.expect(word not in said, f"{name}: the page says {word}")


def check_width(page, name, width):
    page.resize(width, 900)
    page.run("dispatchEvent(new Event('resize'))")
    page.settle()
    # Text of a drawing is neither scaled nor cut off.
    overflow, cut = page.run("""
        const {scrollWidth, clientWidth} = document.documentElement;
        const cut = [];
        for (const picture of document.querySelectorAll('.view svg')) {
          const frame = picture.getBoundingClientRect();
          for (const text of picture.querySelectorAll('text')) {
            const box = text.getBoundingClientRect();
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1 || box.top < frame.top - 4)
              cut.push(`${picture.closest('section').id}: ${text.textContent}`);
          }
        }
        return [scrollWidth - clientWidth, cut];""")
    page.expect(overflow <= 0, f"{name}: {overflow} px wider than {width} px")
    for text in cut:
        page.fail(f"{name}: cut off at {width} px: {text}")


def check_graph(page, compiler):
    """Every row of a phase is drawn or listed once; no two nodes overlap; loops have a frame; selecting dims the rest."""
    page.open_plan(compiler, cases.BLOCKS, *MACHINE, "--precision", "bf16")
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
        check_node_text(page, phase)
    page.run("document.querySelector('#graph .choice button').click()")
    page.expect(page.text("#graph .frame-text") == "layer/#, × 4", f"graph: the frame is {page.text('#graph .frame-text')}")
    page.expect(page.count("#graph .edge.back") > 0, "graph: nothing is carried from one layer to the next")
    texts = page.run("return [...document.querySelectorAll('#graph .node text')].map(text => text.textContent)")
    page.expect("block/attn/q" in texts, f"graph: nodes in the frame are called {texts[:6]}")
    page.expect(not any(" as bf16" in text for text in texts), "graph: what is made of parameters alone is drawn")
    tips = page.run("""
        return [...document.querySelectorAll('#graph .edge-reach')].map(edge => {
          edge.dispatchEvent(new PointerEvent('pointerenter'));
          return document.querySelector('.tip').textContent;
        });""")
    page.expect(tips and all(tips), f"graph: edges say {tips[:3]}")
    page.expect(any("heads 8 → 4, divided by model" in tip for tip in tips), "graph: no edge says what divides its value")
    page.select("collective", 0)
    page.expect(page.count("#graph .dims .node.selected") == 1, "graph: the selected collective is not lit")
    page.expect(page.count("#graph [aria-current=true]") == 1, "graph: the selected collective is not marked as the current one")
    seen = page.run("""
        const box = document.querySelector('.graph-box').getBoundingClientRect();
        const node = document.querySelector('#graph .node.selected').getBoundingClientRect();
        return box.left <= node.left && node.right <= box.right;""")
    page.expect(seen, "graph: the selected collective is out of sight")


def check_node_text(page, name):
    """The text of a node fits into its box."""
    wide = page.run("""
        return [...document.querySelectorAll('#graph .node')].flatMap(node => {
          const box = node.querySelector('.back').getBoundingClientRect();
          return [...node.querySelectorAll('text')].filter(text => {
            const {left, right} = text.getBoundingClientRect();
            return left < box.left || right > box.right;
          }).map(text => text.textContent);
        });""")
    page.expect(not wide, f"graph: wider than its node in {name}: {wide[:3]}")


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
            // Parts of a bar of memory are told from each other and from the page.
            const greys = [...'0123456'].map(part => value('--m' + part));
            greys.forEach((grey, part) => {
              if (contrast(grey, value('--bg')) < 1.35) low.push(`--m${part} on --bg`);
              for (const other of greys.slice(part + 1)) if (contrast(grey, other) < 1.15) low.push(`--m${part} beside ${other}`);
            });
            for (let axis = 0; axis < 6; ++axis) {
              if (contrast(value('--on-axis'), value('--a' + axis)) < 4.5) low.push(`--on-axis on --a${axis}`);
              if (contrast(value('--a' + axis), value('--bg')) < 4.5) low.push(`--a${axis} on --bg`);
            }
            probe.remove();
            return low;""")
        for pair in low:
            page.fail(f"{name}: too little contrast in {theme}: {pair}")
        bars = page.run("""
            return [...document.querySelectorAll('#verdict .whole i')].map(part => [part.title, getComputedStyle(part).background]);""")
        clear = [title for title, back in bars if back.startswith("rgba(0, 0, 0, 0) none")]
        page.expect(len(bars) > 4 and not clear, f"{name}: parts of the bars have no colour in {theme}: {clear} of {len(bars)}")


def check_compare(page, compiler):
    """Bars of all plans; values and messages of the first beside each other one."""
    page.visit(compiler.run("plan", cases.MLP, "--try", "batch=data,pixel=model", "--emit", "html"), "", True)
    page.expect("values are split otherwise" in page.text("#compare"), "compare: no values")
    page.expect(page.count("#compare tbody tr") > 4, "compare: no rows")
    page.expect(page.count("#compare .choice button") == 0, "compare: of two plans there is a choice")
    page.visit(compiler.run("plan", cases.MLP, "--try", "batch=data,pixel=model", "--try", "batch=data",
                            "--emit", "html"), "", True)
    labels = page.run("return [...document.querySelectorAll('#compare .labels li')].map(label => label.textContent)")
    page.expect(labels == ["Abatch → data, hidden → model", "Bbatch → data, pixel → model", "Cbatch → data"],
                f"compare: the plans are called {labels}")
    page.expect(page.count("#compare .over") == 0, "compare: a plan without a limit is over it")
    rows = page.count("#compare .compared-name")
    numbers = page.run("return [...document.querySelectorAll('#compare .compared > span:nth-child(n)')].map(one => one.textContent)")
    page.expect(rows > 3 and len(numbers) == 6 * rows, f"compare: {len(numbers)} letters and numbers for {rows} quantities of three plans")
    page.expect(page.count("#compare .compared .bar") == 3 * rows - 1, "compare: a plan without messages over an axis has a bar for them")
    heads = "return [...document.querySelectorAll('#compare th')].map(head => head.textContent.trim().slice(-1))"
    page.expect("B" in page.run(heads) and "C" not in page.run(heads), f"compare: the tables are of {page.run(heads)}")
    page.run("document.querySelector('#compare .choice button:nth-child(2)').click()")
    page.expect("C" in page.run(heads) and "B" not in page.run(heads), f"compare: the other tables are of {page.run(heads)}")


    plans = [compiler.plan(cases.MLP, "--memory", "4200KiB"),
             compiler.plan(cases.MLP, "--memory", "4200KiB", "--mesh", "x=2,data=4", "--layout", "batch=data,hidden=x", *MACHINE)]
    page.open(plans)
    labels = page.run("return [...document.querySelectorAll('#compare .labels code')].map(label => label.textContent)")
    page.expect(labels == ["mlp on data=2,model=2, no machine: batch → data, hidden → model",
                           "mlp on x=2,data=4, H100 SXM5 80 GB: batch → data, hidden → x"],
                f"compare: plans on other meshes are called {labels}")
    over = page.run("return [...document.querySelectorAll('#compare .over')].map(number => number.textContent)")
    expected = [plan["memory"]["peak_bytes_per_device"] > plan["memory"]["limit_bytes"] for plan in plans].count(True)
    page.expect(len(over) == expected > 0, f"compare: {over} are over the limit, expected {expected}")


def check_sums_over_axes(page, compiler):
    """What is sent over several axes at once counts once: the rows of a plan add up to what it sends."""
    for name, arguments, other in (("convnet", browser.CONVNET, "batch=data+rows"),
                                   ("hybrid", ["samples/layouts/hybrid.mesh"], "batch=server,d_ff=inner"),
                                   ("GPT-3", browser.FEW_LAYERS, "batch=data+model")):
        plans = [compiler.plan(*arguments), compiler.plan(*arguments, "--layout", other)]
        sent = [{} for _ in plans]
        for plan, own in zip(plans, sent):
            for one in plan["collectives"]:
                axes = frozenset(axis.split(":")[0] for axis in one["axes"])
                own[axes] = own.get(axes, 0) + one["repeat"] * one["wire_bytes_per_device"]
            page.expect(sum(own.values()) == plan["totals"]["wire_bytes_per_device"], f"compare: {name}: the messages are not all")
        page.expect(any(len(axes) > 1 for own in sent for axes in own), f"compare: {name}: nothing is sent over two axes")
        page.open(plans)
        rows = page.run("""
            const rows = [];
            for (const child of document.querySelector('#compare .compared').children) {
              if (child.matches('.compared-name')) rows.push([child.textContent, []]);
              else if (child.matches('div:not(.compared-name) + span')) rows.at(-1)[1].push(child.firstChild.textContent);
            }
            return rows.filter(([name]) => name.startsWith('sent over '));""")
        found = {frozenset(name.removeprefix("sent over ").split(" + ")): numbers for name, numbers in rows}
        expected = {axes: [browser.format_bytes(own.get(axes, 0)) for own in sent] for own in sent for axes in own}
        page.expect(found == expected and len(rows) == len(found), f"compare: {name}: {found}, expected {expected}")


def check_narrow(page, compiler):
    """At 800 pixels every name of the header is in sight, and what is selected in the graph."""
    page.open_plan(compiler, cases.BLOCKS, *MACHINE, "--try", "batch=data")
    check_width(page, "eleven views", 800)
    cut = page.run("""
        const room = document.querySelector('#top nav').getBoundingClientRect();
        const find = document.querySelector('#top .tool').getBoundingClientRect();
        return [...document.querySelectorAll('#top nav button')].filter(button => {
          const {left, right} = button.getBoundingClientRect();
          return left < room.left || right > Math.min(room.right, find.left);
        }).map(button => button.textContent);""")
    page.expect(page.count("#top nav button") == 11 and not cut, f"800 px: names of the header are cut off: {cut}")
    page.open_plan(compiler, *browser.FEW_LAYERS)
    drawn = page.run("""
        return planPage.page.plan.collectives.map((_, index) => {
          planPage.page.select({kind: 'collective', index}, true);
          const node = document.querySelector('#graph .node.selected');
          if (!node) return null;
          const box = document.querySelector('.graph-box').getBoundingClientRect();
          const {left, right} = node.getBoundingClientRect();
          return [node.textContent, left >= box.left && right <= box.right];
        }).filter(Boolean);""")
    hidden = [text for text, seen in drawn if not seen]
    page.expect(len(drawn) > 2 and not hidden, f"800 px: of {len(drawn)} selected in the graph are out of sight: {hidden}")
    page.resize(1280, 900)


def check_parts(page, compiler):
    """Of a step of parts the last one is shown, which the page says, with what all come to."""
    for machine in ([], MACHINE):
        page.open_plan(compiler, "tests/recipes/accumulated.mesh", *machine)
        check_content(page, "parts")
        totals = page.run("return planPage.page.plan.json.totals")
        first = totals["first_parts"]
        whole = page.run("return planPage.page.plan.whole")
        page.expect(first["runs"] == 3 and whole["sent"] == totals["wire_bytes_per_device"]
                    + 3 * first["wire_bytes_per_device"], f"parts: a step sends {whole}")
        told = page.run("return document.querySelector('#verdict h1').textContent")
        wanted = rf"the last of 4 parts of a step .* All parts {'take' if machine else 'compute .* and send'} "
        page.expect(re.search(wanted, told, re.IGNORECASE), f"parts: the headline is {told}")
        page.expect("per device and last part" in page.text("#source"), "parts: the source does not say of what it is")
        if machine:
            page.expect(whole["step"] > 2 * totals["step_us"], f"parts: a step takes {whole}")


def check_many_devices(page, compiler):
    """A mesh of 128 columns fits; of many blocks every n-th has its range."""
    page.open_plan(compiler, cases.MLP, "--mesh", "data=128,model=8", "-D", "batch=1024", "-D", "hidden=64")
    hidden = page.run("const mesh = document.querySelector('#mesh .mesh'); return mesh.scrollWidth - mesh.clientWidth")
    page.expect(hidden <= 0, f"many devices: {hidden} px of the mesh are out of sight")
    page.expect(page.count("#mesh .device-box") == 1024, "many devices: the mesh lacks some")
    page.select("value", page.run("return planPage.page.plan.values.findIndex(value => value.name === 'h')"))
    begins = page.run("""
        return [...document.querySelectorAll('#devices svg text.faint[text-anchor="middle"]')]
          .map(text => Number(text.textContent.split(':')[0]));""")
    apart = {after - before for before, after in zip(begins, begins[1:])}
    page.expect(len(begins) > 3 and len(apart) == 1, f"many devices: ranges stand at {begins}")


def check_halo(page, compiler):
    """Where no device is chosen, one is drawn that reads from its neighbours."""
    page.open_plan(compiler, *browser.CONVNET)
    values = page.run("""
        const {plan} = planPage.page;
        return [...new Set(plan.collectives.filter(one => one.value >= 0 && one.kind === 'exchange').map(one => one.value))];""")
    page.expect(len(values) > 5, f"halo: {len(values)} values are exchanged")
    for value, (bands, said) in zip(values, page.run("""
            return arguments[0].map(index => {
              planPage.page.select({kind: 'value', index}, true);
              const devices = document.getElementById('devices');
              return [devices.querySelectorAll('.halo-band').length, devices.textContent];
            });""", values), strict=True):
        page.expect(bands > 0, f"halo: none of value {value} is drawn")
        page.expect("sent by its neighbours" in said, f"halo: the device of value {value} reads nothing")


def check_edges(page, compiler):
    """Plans of which something is missing or too much."""
    page.resize(1280, 900)
    whole = compiler.plan(cases.MLP, *MACHINE)
    whole["totals"] = {key: number for key, number in whole["totals"].items() if key not in ("step_us", "compute_us", "exposed_us")}
    whole["machine"]["cannot_run"] = ["o1", "o2"]
    whole["totals"]["refused_moves"] = ["c1: no such move"]
    page.open([whole])
    page.expect("cannot runc1: no such move" in page.text("#verdict"), "refused: the verdict does not say what GPUs refuse")
    for view in ("verdict", "ledger", "timeline"):
        page.expect("has no units for 2\u00a0operations" in page.text(f"#{view}"), f"no units: {view} does not say why there are no times")
    for machine in ([], MACHINE):
        traced = compiler.plan(cases.MLP, *machine)
        traced["trace"] = {"steps": 2, "processes": 1, "traced_step_us": 9.0}
        for command in [*traced["ops"], *traced["transfers"]]:
            command["measured_us"] = 1.5
        page.open([traced])
        page.expect(page.count("#timeline .measured tbody tr") > 10, "trace: no rows of what was measured")
        page.expect(("pale is predicted" in page.text("#timeline")) == bool(machine), f"trace: {machine}: what pale bars are is said where there are none, or not where there are")
    page.open_plan(compiler, cases.MLP, "--memory", "4MiB")
    page.expect(page.text("h1").startswith("Does not fit. 4.31\u00a0MiB where 4\u00a0MiB are there"), f"memory: the headline is {page.text('h1')}")
    with tempfile.TemporaryDirectory(prefix="meshc-page-") as folder:
        spec = (pathlib.Path(compiler.root) / cases.MLP).read_text(encoding="utf-8")
        bare = pathlib.Path(folder) / "bare.mesh"
        bare.write_text(re.sub(r"^(train|data|layout) \{.*?^\}|^mesh .*?$", "", spec, flags=re.MULTILINE | re.DOTALL), encoding="utf-8")
        page.open_plan(compiler, str(bare), *MACHINE)
        check_content(page, "one device")
        page.expect("An evaluation takes" in page.text("h1"), f"one device: the headline is {page.text('h1')}")
        page.expect("One device and no mesh." in page.text("#mesh"), "one device: the mesh is drawn")
    axes = ["a", "b", "c", "d", "e", "f"]
    page.open_plan(compiler, cases.MLP, "--mesh", ",".join(f"{axis}=2" for axis in axes), "--layout", "batch=a+b,hidden=c+d,pixel=e")
    check_content(page, "six axes")
    check_width(page, "six axes", 1280)
    hidden = page.run("const matrix = document.querySelector('#layout .scroll'); return matrix.scrollWidth - matrix.clientWidth")
    page.expect(hidden <= 0, f"six axes: {hidden} px of the matrix are out of sight")
    page.expect("f: its 2 devices compute the same" in page.text("#verdict"), "six axes: the verdict does not say that f is wasted")
    grids = page.run("return [...document.querySelectorAll('#mesh svg .faint')].map(name => name.textContent)")
    page.expect(len(set(grids)) == 16, f"six axes: {len(set(grids))} grids of 4 devices have a name of their own")
    chips = page.run("return [...document.querySelectorAll('.line[data-index=\"23\"] .chip')].map(chip => chip.textContent)")
    page.expect(chips == ["batch/2", "batch/2", "hidden/2", "hidden/2"], f"six axes: h has the chips {chips}")


def check_media(page, compiler):
    """Paper has every view and no controls; forced colours show what is selected."""
    page.open_plan(compiler, cases.MLP, *MACHINE, link="sel=c1")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = page.run("""
        return ['#top nav', '.controls', '.dims select', '.more', '.inspector', '.cause', 'footer details td']
          .filter(selector => [...document.querySelectorAll(selector)].some(element => element.checkVisibility()));""")
    page.expect(shown == [".cause", "footer details td"], f"print: there are {shown}")
    # Drawings of a wide screen fit on the paper, and have their size again after it.
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    check_width(page, "mlp, before it is printed", 1920)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.resize(720, 1000)
    wide = page.run("""
        return [...document.querySelectorAll('.view svg')].filter(picture => picture.getBoundingClientRect().right > innerWidth)
          .map(picture => picture.getAttribute('aria-label'));""")
    page.expect(not wide, f"print: drawings are wider than the paper: {wide}")
    page.run("dispatchEvent(new Event('afterprint'))")
    page.expect(page.count(".view svg[viewBox]") == 0, "print: drawings are scaled after it")
    page.resize(1280, 900)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": "", "features": [{"name": "forced-colors", "value": "active"}]})
    outlines = page.run("return [...document.querySelectorAll('tr.selected, .line.related')].map(row => getComputedStyle(row).outlineStyle)")
    page.expect(len(outlines) > 1 and "none" not in outlines, f"forced colours: what is selected has the outlines {outlines}")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def check_marks(page, compiler):
    """No two marks of an axis are called alike, however close the window is."""
    windows = [(start, length) for length in (1, 0.37, 0.1, 0.013, 1e-3, 1e-4, 1e-5) for start in (0, 0.31, 0.77)]
    for name, arguments in (("mlp", [cases.MLP]), ("mlp on H100", [cases.MLP, *MACHINE]), ("GPT-3", browser.FEW_LAYERS)):
        page.open_plan(compiler, *arguments)
        for width in browser.WIDTHS:
            check_width(page, name, width)
            for (start, length), drawings in zip(windows, page.run("""
                    const {page} = planPage;
                    const {total} = page.track;
                    return arguments[0].map(([start, length]) => {
                      page.setWindow(start * total, (start + length) * total);
                      return [...document.querySelectorAll('#timeline svg, #memory svg')].map(
                          picture => [...picture.querySelectorAll('.mark')].map(mark => mark.textContent));
                    });""", windows), strict=True):
                page.expect(len(drawings) == 3, f"marks: {name}: {len(drawings)} drawings have some")
                for marks in drawings:
                    page.expect(len(set(marks)) == len(marks), f"marks: {name} at {width} px: {length} from {start} has {marks}")
                page.expect(len(drawings[0]) > 2 and len(drawings[2]) > 2, f"marks: {name} at {width} px: only {drawings}")
                if "on" in name or name == "GPT-3":
                    page.expect(len(drawings[1]) > 1, f"marks: {name} at {width} px: {length} from {start} has {drawings[1]}")
    page.resize(1280, 900)


def check_kinds(page, compiler):
    """Convolutions are called so, and drawn as what a library computes."""
    for name, arguments in (("convnet", [*browser.CONVNET]), ("resnet", ["samples/resnet/resnet.mesh"])):
        plan = compiler.plan(*arguments)
        page.open_plan(compiler, *arguments)
        operations = {one["id"]: one for one in plan["ops"] if one["kind"] == "convolution"}
        page.expect(len(operations) > 10, f"kinds: {name} has {len(operations)} convolutions")
        page.run("planPage.page.setWindow(0, planPage.page.track.total)")
        drawn = page.run("""
            return [...document.querySelectorAll('#timeline .command')].map(
              command => [command.dataset.index, command.classList.contains('products'), command.getAttribute('aria-label')]);""")
        seen = {id_ for id_, products, label in drawn if id_ in operations and products and label.endswith("convolution")}
        page.expect(seen == set(operations), f"kinds: {name}: of {len(operations)} convolutions {len(seen)} are drawn as such")
        page.expect("convolution" in page.text("#timeline .key"), f"kinds: {name}: the timeline does not say what is dark")
        for id_, said in zip(operations, page.run("""
                const {page} = planPage;
                return arguments[0].map(id => {
                  page.select({kind: 'operation', index: page.plan.operationOf.get(id)}, true);
                  return document.querySelector('.inspector .facts').textContent;
                });""", list(operations)), strict=True):
            page.expect("convolution" in said, f"kinds: {name}: of {id_} is said {said}")
        nodes = page.run("""
            return [...document.querySelectorAll('#graph .node:not(.sent)')].map(
              node => [planPage.page.plan.operations[planPage.page.plan.operationOf.get(node.dataset.index)].ids, node.getAttribute('aria-label')]);""")
        for ids, label in nodes:
            page.expect(any(one in operations for one in ids) == ("convolution" in label), f"kinds: {name}: the node of {ids} is called {label}")
        page.expect(any("convolution" in label for _, label in nodes), f"kinds: {name}: no convolution is drawn")


def check_phases(page, compiler):
    """Phases follow one another, in loops of tiles too."""
    for arguments in (["-Dpos=1024"], ["-Dpos=1024", "--tile-bytes", "0"]):
        for machine in ([], MACHINE):
            page.open_plan(compiler, "bench/cliffs/long_attention.mesh", *arguments, *machine)
            name = f"phases {' '.join(arguments + machine)}"
            phases = page.run("return planPage.page.track.phases.map(({name, from, to}) => [name, from, to])")
            names = [phase[0] for phase in phases]
            page.expect(names == ["forward", "backward", "update"], f"{name}: {names}")
            total = page.run("return planPage.page.track.total")
            for (one, _, to), (other, start, _) in zip(phases, phases[1:]):
                page.expect(to <= start + 1e-7 * total, f"{name}: {other} begins at {start}, {one} ends at {to}")


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
                check_node_text(page, name)
                for width in browser.WIDTHS:
                    check_width(page, name, width)
        check_theme(page, sample)
        page.resize(1280, 900)
        check_graph(page, compiler)
        check_compare(page, compiler)
        check_sums_over_axes(page, compiler)
        check_narrow(page, compiler)
        check_parts(page, compiler)
        check_many_devices(page, compiler)
        check_halo(page, compiler)
        check_edges(page, compiler)
        check_media(page, compiler)
        check_marks(page, compiler)
        check_kinds(page, compiler)
        check_phases(page, compiler)
        page.finish()


main()
