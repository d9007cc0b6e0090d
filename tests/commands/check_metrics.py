"""What a training writes of its steps: JSON lines, TensorBoard's events as TensorBoard
reads them, and a picture; in one process and in several."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import packages  # noqa: E402

MODEL = """
mesh data = 3
dim batch = 6
dim in = 5
layout { batch -> data }
model line(x: f32[batch, in]) {
  param w: f32[in] = normal(stddev = 0.3)
  state centre: f32[in] = 0
  if training { centre = 0.5 * centre + mean(x / 255, over = batch) }
  output loss   = mean((dropout(x / 255 * w, rate = 0.2) - 0.5 - centre) ^ 2)
  output spread = max(x / 255 * w)
}
data over batch { x = idx("x", test = "x-test") }
train { minimize loss optimizer sgd(lr = 0.01) epochs 3 }
"""
SAMPLES, BATCH, EPOCHS = 41, 6, 3


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, (command, done.stderr)


def write_data(folder):
    header = struct.pack(">HBBII", 0, 8, 2, SAMPLES, 5)
    pixels = bytes((7 * i * i + 3 * i) % 256 for i in range(SAMPLES * 5))
    for name in ("x", "x-test"):
        (folder / name).write_bytes(header + pixels)


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]}


def single(value):
    """As an f32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def check(folder, program, *flags):
    lines, board, plot = folder / "lines", folder / "board", folder / "loss.svg"
    run(program, "train", "--data-dir", folder, "--no-eval", "--metrics", lines,
        "--tensorboard", board, "--plot", plot, *flags)
    steps = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(1, SAMPLES // BATCH * EPOCHS + 1))
    found = read_events(board)
    assert set(found) == {"loss", "spread", "samples_per_s", "data_wait_s"}, set(found)
    for tag, events in found.items():
        assert len(events) == len(steps), (tag, len(events))
        for (number, value), step in zip(events, steps):
            assert number == step["step"]
            # The lines have nine digits, the rate one behind the point, the wait three.
            expected = single(step[tag])
            digits = 0.006 if tag == "data_wait_s" else 1e-6
            assert abs(value - expected) <= digits * abs(expected) + (
                0.06 if tag == "samples_per_s" else 0), (tag, value, step[tag])
    root = xml.etree.ElementTree.parse(plot).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "line"
    texts = [text.text for text in root.iter(f"{space}text")]
    assert texts.index("loss") < texts.index("spread"), texts
    assert len(list(root.iter(f"{space}path"))) == 4, "a range and a mean for each"
    for path in (lines, plot):
        path.unlink()
    for path in board.iterdir():
        path.unlink()
    return [step["loss"] for step in steps]


def check_evaluations(folder, program, *flags):
    """A training that is evaluated now and then: in lines, events and the picture, and
    with the numbers of one that is not."""
    lines, board, plot = folder / "lines", folder / "board", folder / "loss.svg"

    def train(*more):
        run(program, "train", "--data-dir", folder, "--steps", 11, "--metrics", lines, *flags, *more)
        steps = [json.loads(line) for line in lines.read_text().splitlines()]
        return [{name: value for name, value in step.items() if name not in (
            "samples_per_s", "data_wait_s")} for step in steps]
    plain = train("--no-eval")
    tested = train("--eval-every", 4, "--tensorboard", board, "--plot", plot)
    kept = [{name: value for name, value in step.items() if not name.startswith("test/")}
            for step in tested]
    assert kept == plain, (kept, plain)
    found = [step["step"] for step in tested if "test/loss" in step]
    assert found == [4, 8, 11], found
    events = read_events(board)["test/loss"]
    assert [step for step, _ in events] == found, events
    for step, value in events:
        assert abs(value - tested[step - 1]["test/loss"]) < 1e-6, (step, value)
    texts = [text.text for text in xml.etree.ElementTree.parse(plot).getroot().iter(
        "{http://www.w3.org/2000/svg}text")]
    assert "test/loss" in texts and "test/spread" in texts, texts
    for path in (lines, plot, *board.iterdir()):
        path.unlink()


def main():
    meshc, root = sys.argv[1:3]
    packages.need(root, "tensorboard")
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder = pathlib.Path(name)
        write_data(folder)
        (folder / "line.mesh").write_text(MODEL)
        program = folder / "line"
        run(meshc, "compile", folder / "line.mesh", "-o", program)
        alone = check(folder, program)
        assert check(folder, program, "--processes", 3) == alone
        check_evaluations(folder, program, "--processes", 3)
        run(meshc, "compile", folder / "line.mesh", "-o", program, "--precision", "fp16")
        check_evaluations(folder, program)


if __name__ == "__main__":
    main()
