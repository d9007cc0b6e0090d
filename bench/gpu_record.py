"""What was measured on a GPU, whole on disk at any time."""

import datetime
import json
import sys
import traceback

import gpu_report


def read(path):
    """Damaged data stay as they are and are told; that costs no measurement."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return None


class Record:
    """What is measured of some executables on GPUs of one kind, in a JSON file and a report
    beside it.

    A part has the steps that are measured and those that are planned; one that ran out of
    time may have left a beginning, which is marked as unfinished."""

    def __init__(self, folder, made, driver, planned):
        """`planned`: the names of the steps by part. Goes on with the report of these
        executables in `folder` if there is one; reports of others stay."""
        gpu = driver.name()
        name = "".join(c if c.isalnum() else "-" for c in gpu.lower())
        folder.mkdir(parents=True, exist_ok=True)
        known = {path: result for path in sorted(folder.glob(f"*-{name}*.json"))
                 if (result := read(path)) and (result["gpu"], result["made"]) == (gpu, made)}
        today = datetime.date.today().isoformat()
        if known:
            self.path, self.result = list(known.items())[-1]
            print(f"goes on with {self.path}", file=sys.stderr)
        else:
            self.path, number = folder / f"{today}-{name}.json", 1
            while self.path.exists():
                number += 1
                self.path = folder / f"{today}-{name}-{number}.json"
            if number > 1:
                print(f"reports of other executables stay; this one is {self.path}",
                      file=sys.stderr)
            self.result = {"gpu": gpu, "emulated": driver.is_emulated(), "made": made,
                           "date": today, "runs": [], "parts": {}}
        # A report names the steps that no run has come to.
        for part, steps in planned.items():
            entry = self.result["parts"].setdefault(part, {"steps": {}, "late": {}})
            entry["planned"] = list(steps)

    def get_missing(self, part):
        entry = self.result["parts"][part]
        return [step for step in entry["planned"] if gpu_report.is_missing(entry, step)]

    def get_beginning(self, part, step):
        """What an earlier run has left of an unfinished step; None without."""
        found = self.result["parts"][part]["steps"].get(step)
        return found if found and found.get("unfinished") else None

    def begin(self, system, lacks):
        self.result["runs"].append({
            "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "system": system, "lacks": lacks})
        self.write()

    def add(self, part, step, found):
        entry = self.result["parts"][part]
        entry["steps"][step] = {"run": len(self.result["runs"]) - 1, **found}
        if not found.get("unfinished"):
            entry["late"].pop(step, None)
        self.write()

    def add_late(self, part, step, seconds):
        """The step did not end in so many seconds."""
        self.result["parts"][part]["late"][step] = seconds
        self.write()

    def write(self):
        try:
            text = gpu_report.render(self.result)
        except Exception:  # pylint: disable=broad-except # the data must not be lost by it
            text = f"The report cannot be written:\n\n{traceback.format_exc()}"
            print(text, file=sys.stderr)
        for path, content in ((self.path, json.dumps(self.result, indent=1) + "\n"),
                              (self.path.with_suffix(".md"), text)):
            whole = path.with_name(path.name + ".new")
            whole.write_text(content, encoding="utf-8")
            whole.replace(path)
