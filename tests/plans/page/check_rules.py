"""What is selected says which rule of the layout splits each of its dimensions and which rules
lost, each with its line, which a click shows."""

import pathlib
import tempfile

import browser
import cases

# One rule finds the axis taken, one no dimension that the axis divides.
LOST = """
mesh data = 2
dim batch = 8
dim wide = 6
dim odd = 3
layout {
  batch     -> data
  wide      -> data unless batch
  params: * -> data
}
model lost(x: f32[batch, odd]) {
  param w: f32[odd, wide] = normal(stddev = 0.1)
  param b: f32[odd]       = zeros
  output loss = mean(einsum(x + b, w -> batch, wide))
}
train { minimize loss  optimizer sgd(lr = 0.1) }
"""

WHY = {"unless": "not beside \"", "replaced": "says otherwise", "already_split": "already split over ",
       "indivisible": "no dimension"}


def get_told(page, indices):
    """Of each value what the inspector says of each dimension, and of each rule that lost."""
    return page.run("""
        const told = list => [...document.querySelectorAll(`.inspector .rules ${list} > li`)].map(entry => ({
          text: entry.textContent, links: [...entry.querySelectorAll('button.link')].map(link => link.textContent)}));
        return arguments[0].map(index => {
          planPage.page.select({kind: 'value', index}, true);
          return [told('ul:not(.lost)'), told('ul.lost')];
        });""", indices)


def get_line(plan, rule):
    """What a link to the line of a rule says."""
    span = rule["span"]
    if span["path"].startswith("-"):
        return span["path"]
    return f"line {span['line']}" if span["path"] == plan["spec"]["path"] else \
        f"{span['path'].split('/')[-1]}:{span['line']}"


def check_plan(page, plan, name):
    """Returns why rules lost, and the rules that split something."""
    tensors = {tensor["id"]: tensor for tensor in plan["tensors"]}
    firsts = [tensors[one] for one in page.run("return planPage.page.plan.values.map(value => value.id)")]
    reasons, splits = set(), set()
    for tensor, (told, lost) in zip(firsts, get_told(page, list(range(len(firsts)))), strict=True):
        what = f"{name}: {tensor['name']}"
        special = [dim for dim in tensor["dims"] if dim["axes"] or dim.get("rules")]
        rest = [dim["name"] for dim in tensor["dims"] if dim not in special]
        page.expect(len(told) == len(special) + bool(rest), f"{what}: {len(told)} entries for {tensor['dims']}")
        for dim, entry in zip(special, told):
            rules = [plan["rules"][rule] for rule in dim.get("rules", [])]
            page.expect(entry["text"].startswith(dim["name"]) and all(axis.split(":")[0] in entry["text"] for axis in dim["axes"]),
                        f"{what}: of {dim} is said {entry}")
            page.expect(all(rule["text"] in entry["text"] for rule in rules), f"{what}: of {dim} is said {entry}, not {rules}")
            page.expect(entry["links"] == [get_line(plan, rule) for rule in rules], f"{what}: {entry} links to other lines than {rules}")
            page.expect(bool(rules) != ("no rule asks for it" in entry["text"]), f"{what}: of {dim} is said {entry}")
            page.expect(bool(dim["axes"]) != (", whole" in entry["text"]), f"{what}: of {dim} is said {entry}")
            splits.update(rule["text"] for rule in rules if dim["axes"])
        if rest:
            page.expect(all(one in told[-1]["text"] for one in rest) and "no rule splits" in told[-1]["text"],
                        f"{what}: of {rest} is said {told[-1]}")
        wanted = tensor.get("lost_rules", [])
        page.expect(len(lost) == len(wanted), f"{what}: {len(lost)} rules lost, expected {wanted}")
        for one, entry in zip(wanted, lost):
            rule = plan["rules"][one["rule"]]
            reasons.add(one["why"])
            page.expect(entry["text"].startswith(rule["text"]) and WHY[one["why"]] in entry["text"],
                        f"{what}: of {rule['text']}, lost by {one['why']}, is said {entry}")
            page.expect(entry["links"][:1] == [get_line(plan, rule)], f"{what}: {entry} does not link to {rule}")
            if one["why"] == "unless":
                names = {dim["name"] for dim in tensor["dims"]}
                page.expect(all(other in entry["text"].split("beside ")[-1] for other in names & set(rule["unless"])),
                            f"{what}: {entry} does not say what the value has of {rule['unless']}")
    return reasons, splits


def check_links(page, plan, name):
    """The line of each rule is in sight after a click on its link, and selected."""
    for width in browser.WIDTHS:
        page.resize(width, 900)
        page.settle()
        for text, line, seen in page.run(browser.SEEN + """
                const {page} = planPage;
                const keys = new Set();
                const values = page.plan.values.filter(value => {
                  const key = JSON.stringify([value.dims.map(dim => dim.rules), value.lost]);
                  return !keys.has(key) && keys.add(key);
                });
                const linksOf = ({index}) => {
                  page.select({kind: 'value', index}, true);
                  return [...document.querySelectorAll('.inspector .rules button.link')];
                };
                return values.flatMap(value => linksOf(value).map((_, place) => {
                  const link = linksOf(value)[place];
                  link.click();
                  const {kind, index} = page.item;
                  return [link.textContent, kind === 'line' && page.plan.lines[index],
                          isSeen(document.querySelector('.line.selected'))];
                }));"""):
            shown = line["path"] if line["path"].startswith("-") else f"line {line['number']}"
            page.expect(text.split(":")[-1] == shown.split(" ")[-1] or text == shown, f"{name}: {text} selects {shown}")
            page.expect(seen, f"{name}: {text} is out of sight at {width} px")
    page.resize(1280, 900)


def main():
    compiler, page = browser.start()
    samples = {"mlp": [cases.MLP], "mlp, of the command line": cases.CASES["mlp-two-axes"],
               **{name: [f"samples/layouts/{name}.mesh"] for name in ("fsdp", "ulysses", "hybrid", "megatron")}}
    with page:
        reasons = set()
        for name, arguments in samples.items():
            plan = compiler.plan(*arguments)
            page.open([plan])
            lost, splits = check_plan(page, plan, name)
            reasons |= lost
            expected = {rule["text"] for rule in plan["rules"] if rule["axes"]}
            page.expect(splits == expected, f"{name}: {splits} split values, the rules are {expected}")
            if name in ("mlp", "ulysses"):
                check_links(page, plan, name)
        plan = compiler.plan(*browser.FEW_LAYERS)
        page.open([plan])
        check_plan(page, plan, "GPT-3")
        check_links(page, plan, "GPT-3")
        with tempfile.TemporaryDirectory(prefix="meshc-page-") as folder:
            spec = pathlib.Path(folder) / "lost.mesh"
            spec.write_text(LOST, encoding="utf-8")
            plan = compiler.plan(str(spec))
        page.open([plan])
        lost, _ = check_plan(page, plan, "lost")
        page.expect(reasons | lost == set(WHY), f"rules lost by {reasons | lost}, expected each of {set(WHY)}")
        page.finish()


main()
