"""Steps of parts: trainings whose steps are made of 1 to 6 parts have the same losses and
parameters, with dropout, in loops, on meshes that split batch, rows and columns unevenly, in
several processes bit for bit, on emulated GPUs and in 16 bits; a step that fp16 skips takes
back what its parts have set of the model's state. What devices send does not grow.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import json
import math

import trainings
from trainings import GPU, SPEC, STEPS

import tensors  # behind trainings, which says where it is  # pylint: disable=wrong-import-order

# Flags of the compiler and of the program, GPUs, and the numbers of parts.
PLACES = {
    "whole": ((), (), 0, (1, 2, 3, 4, 12)),
    "batch": (("--mesh", "a=3", "--layout", "batch=a"), (), 0, (2, 4)),
    "grid": (("--mesh", "a=2,b=3", "--layout", "batch=a,wide=b"), (), 0, (3, 6)),
    "rows": (("--mesh", "a=4", "--layout", "from=a"), (), 0, (4,)),
    "gpus": (("--mesh", "a=3", "--layout", "batch=a", *GPU), ("--devices-per-gpu", "3"), 1, (4,)),
    "processes": (("--mesh", "a=3", "--layout", "batch=a"), ("--processes", "3"), 0, (4,)),
}
# Sums of a few dozen terms in f32, in another order, six steps.
TOLERANCE = 2e-5


class Test(trainings.Trainings):
    def write_parts(self, parts, recipe="optimizer adam(lr = 0.02)", spec=SPEC):
        return self.write(f"{recipe}\n  microbatches {parts}", spec)

    def train_at(self, spec, place, steps=STEPS):
        return self.train(spec, PLACES[place], steps)

    def expect(self, found, wanted, what, parts, tolerance=TOLERANCE):
        for one, other in zip(found[0], wanted[0], strict=True):
            assert math.isclose(one["loss"], other["loss"], rel_tol=tolerance,
                                abs_tol=tolerance), (what, one, other)
            # A sum over samples is that of a part, on average.
            assert tolerance > TOLERANCE or math.isclose(
                parts * one["positive"], other["positive"], rel_tol=1e-6), (what, one, other)
        assert set(found[1]) == set(wanted[1])
        for name, values in wanted[1].items():
            for one, other in zip(found[1][name], values, strict=True):
                assert math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance), (
                    what, name, found[1][name], values)

    def check_places(self):
        wanted = self.train_at(self.write_parts(1), "whole")
        losses = [line["loss"] for line in wanted[0]]
        assert max(losses) - min(losses) > 0.05, losses
        for place, (*_, numbers) in PLACES.items():
            for parts in numbers:
                found = self.train_at(self.write_parts(parts), place)
                self.expect(found, wanted, place, parts)
                if place == "batch" and parts == 4:
                    alone = found
                if place == "processes":
                    assert [line["loss"] for line in found[0]] == [
                        line["loss"] for line in alone[0]]
                    assert found[1] == alone[1]
        clipped = "optimizer lamb(lr = 0.02) for \"first\"\n  optimizer momentum(lr = 0.01)\n" \
                  "  clip norm(0.5)"
        self.expect(self.train_at(self.write_parts(4, clipped), "batch"),
                    self.train_at(self.write_parts(1, clipped), "whole"), "clipped", 4)

    def check_precisions(self):
        for precision, tolerance in (("bf16", 0.03), ("fp16(initial_scale = 64)", 4e-3)):
            recipe = f"optimizer momentum(lr = 0.01)\n  precision {precision}"
            self.expect(self.train_at(self.write_parts(4, recipe), "batch"),
                        self.train_at(self.write_parts(1, recipe), "whole"), precision, 4, tolerance)

    def check_state(self):
        """Each part begins with the state that the one before has left; a step that is
        skipped leaves none."""
        spec = SPEC.replace("  let y = ", "  h = count_up(h)\n  let y = ").replace(
            "model parts", "fn count_up(h) {\n  state n: f32 = 2\n"
            "  n = 2 * n + stop_gradient(mean(h * 0))\n  return h\n}\nmodel parts")
        _, found = self.train_at(self.write_parts(4, spec=spec), "batch", 2)
        assert found["count_up/n"] == [2 * 2 ** 8], found["count_up/n"]
        start = self.train_at(self.write_parts(4, "optimizer sgd(lr = 0)", spec), "batch", 1)[1]
        # The scaled loss alone is beyond fp16.
        recipe = "optimizer momentum(lr = 0.01)\n  precision fp16(initial_scale = 2 ^ 24)"
        metrics, found = self.train_at(self.write_parts(4, recipe, spec), "batch", 1)
        assert metrics[0]["fp16/skipped_steps"] == 1, metrics
        assert found["count_up/n"] == [2], found["count_up/n"]
        assert found["first"] == start["first"]

    def check_means(self):
        """The evaluation in a training is that of what is exported: of the running means."""
        spec = self.write_parts(2, "optimizer momentum(lr = 0.05)\n  ema 0.8")
        program, saved = self.folder / "means", self.folder / "means-saved"
        exported = self.folder / "means.safetensors"
        self.meshc.run("compile", str(spec), "-o", str(program))
        trained = self.run(program, "train", "--data-dir", self.folder, "--steps", STEPS,
                           "--save", saved, "--eval-every", 4).splitlines()[-1]
        self.run(program, "export", "--from", saved, "--to", exported)
        tested = [self.run(program, "eval", "--data-dir", self.folder, "--from", path
                           ).splitlines()[-1] for path in (saved, exported)]
        assert "loss" in trained and tested == [trained] * 2, (trained, tested)
        # A checkpoint has both, and what goes on from it goes on with both.
        at = self.folder / "means-resumed"
        self.run(program, "train", "--data-dir", self.folder, "--steps", 3, "--save", at)
        self.run(program, "train", "--data-dir", self.folder, "--steps", STEPS,
                 "--resume", at, "--save", at)
        again = self.folder / "means-again.safetensors"
        self.run(program, "export", "--from", at, "--to", again)
        assert tensors.read(again) == tensors.read(exported)

    def check_payload(self):
        """What is sent a step is what a step of one part sends."""
        for flags in (("--mesh", "a=3", "--layout", "batch=a"),):
            # Means of integers are taken of their sums over the devices, 4 bytes.
            spec = "\n".join(line for line in SPEC.splitlines() if "positive" not in line) + "\n"
            sent = []
            for parts in (1, 4):
                plan = json.loads(self.meshc.run("plan", str(self.write_parts(parts, spec=spec)), *flags, "--emit", "json"))
                sent.append(plan["totals"]["collective_payload_bytes"])
            assert sent[0] == sent[1], (flags, sent)
        told = self.meshc.run("explain", "c1", str(self.write_parts(2, spec=spec)), *flags)
        assert "; the last of the 2 parts of each training step\n" in told, told
        told = self.meshc.run("plan", str(self.write_parts(2, spec=spec)), *flags)
        assert "\nthe first of the 2 parts of each training step, on each device\n" in told, told


def main():
    test = Test()
    test.check_places()
    test.check_precisions()
    test.check_state()
    test.check_means()
    test.check_payload()


main()
