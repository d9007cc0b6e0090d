"""Numbers that are set when a training starts give the bits that the same numbers give where
they are compiled: of every optimizer, of schedules, of what is computed of them, on meshes, in
several processes, on emulated GPUs and in 16 bits. A checkpoint keeps them. What the program is
made of, and what would make another one of it, is refused.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import json
import subprocess

import trainings
from trainings import GPU, SPEC, STEPS

DEFINED = """let rate   = 0.02
let keep   = 0.9
let decay  = 0.1 * rate
let factor = 0.5
let half   = -rate / -2
let rising = 3
let done   = 9
let shift  = 0.5
"""
MADE = DEFINED + SPEC.replace("error * error", "error * error * shift")

# Settings of the train block, and the values that are set of the numbers above.
RECIPES = {
    "sgd": ("optimizer sgd(lr = rate)", [{"rate": "0.25"}, {"rate": "1"}, {"rate": "0"}]),
    "derived": ("optimizer sgd(lr = 3 * half + rate ^ 2)", [{"rate": "0.07"}, {"half": "0.003"}]),
    "momentum": ("optimizer momentum(lr = rate, beta = keep)", [{"keep": "0", "rate": "0.01"}]),
    "adamw": ("optimizer adamw(lr = rate * warmup(3) * cosine(rising, done), decay = decay)",
              [{"rate": "1e-3"}, {"decay": "0.25"}, {"decay": "0"}, {"rising": "10", "done": "20"}]),
    "lamb": ("optimizer lamb(lr = rate, beta1 = keep, beta2 = 1 - decay)", [{"rate": "0.1"}]),
    "lion": ("optimizer lion(lr = rate * staircase(2, factor = factor))",
             [{"factor": "2"}, {"factor": "0.1"}, {"factor": "0.25"}]),
    "adafactor": ("optimizer adafactor(lr = rate)", [{"rate": "0.3"}]),
    "groups": ("optimizer adam(lr = rate) for \"i/*\"\n  optimizer nesterov(lr = 2 * rate)"
               "\n  clip norm(1)\n  microbatches 2", [{"rate": "0.004"}]),
}
PLACES = {
    "whole": ((), (), 0),
    "grid": (("--mesh", "a=2,b=3", "--layout", "batch=a,wide=b"), (), 0),
    "gpus": (("--mesh", "a=3", "--layout", "batch=a", *GPU), ("--devices-per-gpu", "3"), 1),
    "processes": (("--mesh", "a=3", "--layout", "batch=a"), ("--processes", "3"), 0),
    "bf16": (("--precision", "bf16"), (), 0),
}


def get_flags(values, flag):
    return [word for name, value in values.items() for word in (flag, f"{name}={value}")]


class Test(trainings.Trainings):
    def expect_same(self, recipe, sets, place):
        compiled, flags, gpus = PLACES[place]
        spec = self.write(recipe, MADE)
        program = self.compile(spec, compiled)
        plain = self.run_training(program, flags, gpus, STEPS)
        for values in sets:
            wanted = self.train(spec, (compiled + tuple(get_flags(values, "-D")), flags, gpus))
            found = self.run_training(program, flags + tuple(get_flags(values, "--set")), gpus, STEPS)
            for one, other in zip(found[0], wanted[0], strict=True):
                for line in (one, other):
                    for time in ("samples_per_s", "data_wait_s"):
                        line.pop(time)
                assert one == other, (recipe, values, place)
            # A rate of 1 may end in NaN, which is not what it is.
            assert repr(found[1]) == repr(wanted[1]), (recipe, values, place)
            assert repr(found[1]) != repr(plain[1]), (recipe, values, place)

    def check_recipes(self):
        for recipe, sets in RECIPES.values():
            self.expect_same(recipe, sets, "whole")

    def check_places(self):
        for place in PLACES:
            if place != "whole":
                recipe, sets = RECIPES["adamw"]
                self.expect_same(recipe, sets[:1], place)

    def fail(self, program, *arguments):
        done = subprocess.run([str(word) for word in (program, *arguments)], capture_output=True,
                              text=True, check=False, timeout=60)
        assert done.returncode in (1, 2), done
        return done.stderr

    def check_refused(self):
        program = self.compile(self.write("optimizer adamw(lr = inverse_sqrt(3) * (rate / factor), beta1 = keep, decay = decay)", MADE))
        for text, *told in (
                ("rate", "expected NAME=NUMBER, found 'rate'"),
                ("rate=fast", "expected NAME=NUMBER, found 'rate=fast'"),
                ("rat=1", "the spec defines no number 'rat'", "did you mean 'rate'?"),
                ("batch=6", "the spec defines no number 'batch'", "expected one of 'rate', 'keep', 'decay'"),
                ("shift=2", "the program is made of 'shift', which is 0.5", "compile it with -D shift=2"),
                ("keep=1", "made for numbers of which keep < 1, which does not hold with keep = 1"),
                ("factor=0", "division by zero", "with factor = 0"),
                ("decay=1e39", "1e+39 is infinite in f32", "with decay = 1e+39")):
            message = self.fail(program, "bench", "--steps", "1", "--set", text)
            for part in told:
                assert part in message, (text, message)
        assert "loss" in self.run(program, "bench", "--steps", 1, "--set", "rate=0.1", "--set", "keep=0.5")

    def check_info(self):
        program = self.compile(self.write("optimizer adamw(lr = rate * warmup(4) * staircase(10), beta1 = keep)\n  steps 25", MADE))
        told = self.run(program, "info")
        # staircase divides by 10 behind each ten steps.
        for line in ("  by adamw(lr = rate * warmup(4) * staircase(10), beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.01)",
                     "  for 25 steps",
                     "  adamw/lr at step 1: 0.005, 10: 0.02, 25: 0.0002",
                     "  for --set: rate = 0.02, keep = 0.9, decay = 0.002, factor = 0.5, half = 0.01, rising = 3, done = 9",
                     "  compiled in: shift = 0.5"):
            assert f"{line}\n" in told, (line, told)

    def check_resumed(self):
        """A training goes on with what the one that saved had set."""
        program = self.compile(self.write(RECIPES["adamw"][0], MADE))
        both = ("train", "--data-dir", self.folder, "--no-eval", "--seed", 3)

        def train(name, steps, *arguments):
            lines = self.folder / f"{name}.jsonl"
            done = subprocess.run(
                [str(word) for word in (program, *both, "--steps", steps, "--metrics", lines, "--save",
                                        self.folder / name, *arguments)],
                capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            last = json.loads(lines.read_text(encoding="utf-8").splitlines()[-1])
            return (last["step"], last["loss"], last["adamw/lr"]), done.stderr

        wanted, _ = train("whole", STEPS, "--set", "rate=0.005")
        train("first", STEPS - 2, "--set", "rate=0.005")
        found, told = train("second", STEPS, "--resume", self.folder / "first")
        assert found == wanted and "was trained with" not in told, (found, wanted, told)
        other, told = train("third", STEPS, "--resume", self.folder / "first", "--set", "rate=0.5",
                            "--set", "keep=0.8")
        assert other[2] > 50 * wanted[2] and other[1] != wanted[1], (other, wanted)
        assert "was trained with rate = 0.005, and it is 0.5 from here on" in told, told
        assert "keep = 0.9" in told, told
        # Each alone would leave the schedule without an end behind its beginning.
        wanted, _ = train("later", STEPS, "--set", "rising=10", "--set", "done=20")
        train("late", STEPS - 2, "--set", "done=20", "--set", "rising=10")
        found, told = train("latest", STEPS, "--resume", self.folder / "late")
        assert found == wanted and "was trained with" not in told, (found, wanted, told)
        found, told = train("lately", STEPS, "--resume", self.folder / "late", "--set", "rising=5")
        assert found != wanted and "was trained with rising = 10, and it is 5" in told, told
        manifest = json.loads(next((self.folder / "third").glob("step-*/manifest.json")).read_text(encoding="utf-8"))
        assert manifest["settings"] == [{"name": "keep", "value": "0.8"}, {"name": "rate", "value": "0.5"}], manifest


def main():
    test = Test()
    test.check_refused()
    test.check_info()
    test.check_recipes()
    test.check_places()
    test.check_resumed()
    print("ok")


main()
