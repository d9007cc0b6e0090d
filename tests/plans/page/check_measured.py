"""With a trace the headline says what a step took, and the lanes of the timeline what each command did."""

import browser
import cases

MACHINE = ["--machine", "h100"]
SAMPLES = {"mlp": [cases.MLP], "mlp on H100": [cases.MLP, *MACHINE], "blocks": [cases.BLOCKS, *MACHINE],
           "GPT-3": browser.FEW_LAYERS}


def trace(plan, has_plain_steps):
    """The plan with times of a run, of each command another."""
    timed = "step_us" in plan["totals"]
    step = plan["totals"]["step_us"] * 1.5 if timed else 9000.0
    plan["trace"] = {"steps": 2, "processes": 1, "traced_step_us": step}
    if has_plain_steps:
        plan["trace"]["step_us"] = step * 0.9
    commands = [*plan["ops"], *plan["transfers"]]
    for place, command in enumerate(commands):
        command["measured_us"] = round((command["time_us"] if timed else 10) * (0.6 + 1.7 * place / len(commands)) + 0.001, 3)
    for transfer in plan["transfers"][::2]:
        transfer["measured_wait_us"] = 1.25
    return {command["id"]: command for command in commands}


def check_headline(page, plan, name):
    took = browser.format_time(plan["trace"].get("step_us", plan["trace"]["traced_step_us"]))
    said = page.text("#verdict h1")
    page.expect(f"Measured: {took}" in said, f"{name}: the headline is {said}, measured were {took}")
    numbers = page.run("return [...document.querySelectorAll('#verdict .big')].map(one => one.textContent)")
    page.expect(took in numbers, f"{name}: the verdict has {numbers}, measured were {took}")


def check_lanes(page, commands, name, timed):
    page.run("""
        const {page} = planPage;
        const {total, runs} = page.track;
        const middle = runs[Math.floor(runs.length / 2)];
        page.setWindow(...runs.length > 300 ? [middle.start - total / 200, middle.start + total / 200] : [0, total]);""")
    lanes = page.run("return [planPage.page.track.lanes.length + 1, document.querySelectorAll('#timeline path.ran').length]")
    page.expect(lanes[0] == lanes[1], f"{name}: {lanes[1]} of {lanes[0]} lanes have what was measured")
    tips = page.run("""
        return [...document.querySelectorAll('#timeline .command')].map(command => {
          command.dispatchEvent(new PointerEvent('pointerenter'));
          return [command.dataset.index, document.querySelector('.tip').textContent];
        });""")
    page.expect(len(tips) > 5 and any(id_.startswith("x") for id_, _ in tips), f"{name}: {len(tips)} commands are in the window")
    for id_, tip in tips:
        command = commands[id_]
        expected = f"measured {browser.format_time(command['measured_us'])}"
        page.expect(expected in tip and ("× predicted" in tip) == timed, f"{name}: {id_} says {tip}, expected {expected}")
        page.expect(("1.25\u00a0µs waiting" in tip) == ("measured_wait_us" in command), f"{name}: {id_} says {tip}")
    # Each bar is as high as its command says: half of the room is what was predicted.
    bars = page.run("""
        return [...document.querySelectorAll('#timeline path.ran')].flatMap(path =>
          path.getAttribute('d').split('M').slice(1).map(bar => -Number(/v(-?[\\d.]+)/.exec(bar)[1])));""")
    page.expect(len(bars) >= len(tips) and all(0 <= bar <= 12 for bar in bars), f"{name}: {len(bars)} bars for {len(tips)} commands")
    if timed:
        wanted = sorted(min(12, round(6 * commands[id_]["measured_us"] / commands[id_]["time_us"], 2)) for id_, _ in tips)
        bars.sort()
        missing = [one for one in wanted if all(abs(one - bar) > 0.011 for bar in bars)]
        page.expect(not missing, f"{name}: no bars are {missing[:5]} high")
    labels = page.run("return [...document.querySelectorAll('#timeline .took')].map(label => label.textContent)")
    known = {browser.format_time(command["measured_us"]) for command in commands.values()}
    page.expect(set(labels) <= known, f"{name}: labels are {labels}")
    return len(labels)


def check_width(page, name, width):
    page.resize(width, 900)
    page.run("dispatchEvent(new Event('resize'))")
    page.driver.execute_async_script("setTimeout(arguments[0], 200)")
    cut = page.run("""
        return [...document.querySelectorAll('#timeline svg')].flatMap(picture => {
          const frame = picture.getBoundingClientRect();
          return [...picture.querySelectorAll('text')].filter(text => {
            const {left, right, bottom} = text.getBoundingClientRect();
            return left < frame.left - 1 || right > frame.right + 1 || bottom > frame.bottom + 1;
          }).map(text => text.textContent);
        });""")
    page.expect(not cut, f"{name}: cut off at {width} px: {cut}")


def main():
    compiler, page = browser.start()
    with page:
        labels = 0
        for place, (name, arguments) in enumerate(SAMPLES.items()):
            plan = compiler.plan(*arguments)
            commands = trace(plan, place % 2 == 0)
            timed = "step_us" in plan["totals"]
            page.open([plan])
            check_headline(page, plan, name)
            for width in browser.WIDTHS:
                check_width(page, name, width)
                labels += check_lanes(page, commands, f"{name} at {width} px", timed)
            page.expect("measured: " in page.text("#timeline .key"), f"{name}: the key does not say what the bars are")
        page.expect(labels > 10, f"{labels} times stand on the lanes")
        page.open([compiler.plan(cases.MLP, *MACHINE)])
        page.expect("easured" not in page.text("#verdict") and page.count("path.ran") == 0, "without a trace something was measured")
        page.finish()


main()
