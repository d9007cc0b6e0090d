"""A trace has what the plan has: `--trace` of train and bench, on CPUs, in several
processes and on emulated GPUs, beside `meshc plan --emit json` of the same program."""

import collections
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
SMALL = [f"-D{dim}={size}" for dim, size in
         {"batch": 14, "pixel": 15, "hidden": 11, "class": 7}.items()]
THREE = ["--mesh", "data=3,model=2"]
# Times have three digits behind the microsecond.
ROUNDING = 2e-3


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env=dict(os.environ, **environment))
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def get_digest(plan):
    """As runtime/exec/PlanIds.h says."""
    things = {thing["id"]: thing for thing in plan["ops"] + plan["collectives"]}
    members = {transfer["id"]: transfer["collectives"] for transfer in plan["transfers"]}
    lines = ["mesh" + "".join(f" {axis['name']}={axis['size']}"
                              for axis in plan["mesh"]["axes"])]
    for entry in plan["schedule"]:
        for name in members.get(entry, [entry]):
            thing = things[name]
            fields = (["payload_bytes", "wire_bytes_per_device"] if entry in members
                      else ["flops_per_device", "bytes_per_device"])
            lines.append(" ".join(str(thing[field])
                                  for field in ["id", "kind", "phase", *fields]))
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def get_expected(plan):
    """By the id in the trace, the members that an event's args must have."""
    expected = {}
    for op in plan["ops"]:
        fields = ["id", "kind", "phase", "flops_per_device", "bytes_per_device"]
        expected[op["id"]] = {field: op[field] for field in fields}
    collectives = {collective["id"]: collective for collective in plan["collectives"]}
    for transfer in plan["transfers"]:
        members = [collectives[name] for name in transfer["collectives"]]
        expected[members[0]["id"]] = {
            **{field: members[0][field] for field in ["id", "kind", "phase"]},
            "payload_bytes": sum(member["payload_bytes"] for member in members),
            "wire_bytes_per_device":
                sum(member["wire_bytes_per_device"] for member in members)}
        if len(members) > 1:
            expected[members[0]["id"]]["ids"] = transfer["collectives"]
    # A transfer stands where the largest of its collectives does.
    places = [(op["id"], op["span"]) for op in plan["ops"]]
    places += [(transfer["collectives"][0], collectives[transfer["largest"]]["span"])
               for transfer in plan["transfers"]]
    for name, span in places:
        if span:
            expected[name]["line"] = f"{span['path']}:{span['line']}"
    return expected


def end(event):
    return event["ts"] + event["dur"]


def check_track(events, step):
    """Events of one track in one step: one behind the other, but parts inside of the
    collective that they are of."""
    events.sort(key=lambda event: (event["ts"], "of" in event["args"]))
    whole, part_end, last, total = None, 0, 0, 0
    for event in events:
        assert event["ts"] >= step["ts"] - ROUNDING, event
        assert end(event) <= end(step) + ROUNDING, event
        if "of" in event["args"]:
            assert whole["args"]["id"] == event["args"]["of"], (whole, event)
            assert end(event) <= end(whole) + ROUNDING, (whole, event)
            assert event["ts"] >= part_end - ROUNDING, (whole, event)
            part_end = end(event)
            continue
        assert event["ts"] >= last - ROUNDING, (whole, event)
        whole, part_end, last = event, event["ts"], end(event)
        total += event["dur"]
    assert total <= step["dur"] + ROUNDING * len(events), (total, step)


def check(trace, plan, processes, steps):
    meta = trace["meta"]
    assert meta["schema"] == "meshc.trace/1", meta
    assert meta["model"] == plan["model"], meta
    axes = [{key: axis[key] for key in ("name", "size")} for axis in plan["mesh"]["axes"]]
    assert meta["mesh"] == {**plan["mesh"], "axes": axes}, meta  # no links
    assert meta["spec_sha256"] == plan["spec"]["sha256"], meta
    assert meta["plan"] == get_digest(plan), meta
    assert (meta["processes"], meta["steps"]) == (processes, steps), meta
    assert meta["step_us"] > 0, meta
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {(event["pid"], event["tid"]): event["args"]["name"]
             for event in trace["traceEvents"] if event["name"] == "thread_name"}
    whole_steps = {(event["pid"], event["args"]["step"]): event for event in events
                   if event["cat"] == "step"}
    assert len(whole_steps) == processes * len(steps), whole_steps.keys()
    expected = get_expected(plan)
    counts, tracks = collections.Counter(), collections.defaultdict(list)
    op_names = {op["id"]: op["name"] for op in plan["ops"]}
    ends, waits = {}, []
    for event in events:
        if event["cat"] == "step":
            continue
        args, process = dict(event["args"]), event["pid"]
        step = args.pop("step")
        tracks[process, event["tid"], step].append(event)
        kind, device, queue, *_ = names[process, event["tid"]].split()
        assert kind == "device", names
        if "for" in args:
            assert queue == "compute", event
            waits.append((event, device, step))
        if "id" not in args:
            continue
        assert args == expected[args["id"]], (args, expected[args["id"]])
        name = op_names.get(args["id"])
        assert name == event["name"] if name is not None else \
            event["name"].startswith(", ".join(args.get("ids", [args["id"]]))), event
        counts[args["id"], int(device), step] += 1
        ends[args["id"], device, step] = end(event)
    wanted = {(name, device, step) for name in expected
              for device in range(plan["devices"]) for step in steps}
    assert set(counts) == wanted, set(counts) ^ wanted
    assert set(counts.values()) == {1}, counts
    for event, device, step in waits:
        assert end(event) <= ends[event["args"]["for"], device, step] + ROUNDING, event
    for (process, _, step), on_track in tracks.items():
        check_track(on_track, whole_steps[process, step])
    return {event["name"] for event in events if event["cat"] in ("wait", "part")}


def check_beside(beside, plan, processes, steps):
    """The plan with what was measured: the same, and a time of every command."""
    measured = beside.pop("trace")
    assert (measured["steps"], measured["processes"]) == (len(steps), processes), measured
    assert 0 < measured["step_us"] and 0 < measured["traced_step_us"], measured
    times = []
    for thing in beside["ops"] + beside["transfers"]:
        times.append(thing.pop("measured_us"))
        thing.pop("measured_wait_us", None)
    assert min(times) >= 0 and 0 < max(times) <= measured["traced_step_us"], times
    del beside["sha256"], plan["sha256"]
    assert beside == plan


def main():
    meshc, root, emulation = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    mlp, block = (root / "samples" / name for name in ("mlp.mesh", "transformer_block.mesh"))
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder = pathlib.Path(name)
        environment = {"MESHC_CACHE_DIR": name, "MESHC_CUDA_LIBRARIES": emulation,
                       "MESHC_EMULATION_DEVICES": "6"}

        def trace(spec, flags, command, processes=1, gpu=()):
            path = folder / "trace.json"
            path.unlink(missing_ok=True)
            plan = json.loads(run(meshc, "plan", spec, *flags, "--emit", "json",
                                  **environment))
            app = folder / "app"
            run(meshc, "compile", spec, *flags, *gpu, "-o", app, **environment)
            run(app, *command, "--trace", path, **environment)
            steps = [8, 9, 10] if command[0] == "train" else [7, 8]
            assert sorted(folder.glob("trace*")) == [path]
            beside = json.loads(run(meshc, "plan", spec, *flags, "--emit", "json",
                                    "--trace", path, **environment))
            check_beside(beside, plan, processes, steps)
            return check(json.loads(path.read_text(encoding="utf-8")), plan, processes,
                         steps)

        def refuse():
            done = subprocess.run([meshc, "plan", block, "--emit", "json", "--trace",
                                   folder / "trace.json"], capture_output=True, text=True,
                                  check=False, env=dict(os.environ, **environment))
            assert done.returncode == 1, done
            assert "error[MC0810]: cannot read the trace" in done.stderr, done.stderr
            assert "mlp" in done.stderr, done.stderr

        train = ["train", "--data-dir", IMAGES, "--steps", "12", "--no-eval",
                 "--trace-steps", "3"]
        bench = ["bench", "--steps", "4"]
        found = trace(mlp, [], train)
        assert "combine" in found, found
        refuse()
        found = trace(mlp, THREE, [*train, "--processes", "4"], 4)
        assert {"pack", "wait for messages", "combine"} <= found, found
        trace(block, [], [*bench, "--threads", "1"])
        gpu = ["--target", "cuda", *SMALL, *THREE]
        found = trace(mlp, gpu, [*bench, "--devices-per-gpu", "6"], 1, ["--gpu", "host"])
        assert "wait for devices" in found, found
        trace(mlp, gpu, [*bench, "--processes", "6"], 6, ["--gpu", "host"])


main()
