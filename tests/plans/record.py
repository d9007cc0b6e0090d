"""What one training step asks of the emulated libraries."""

import collections
import json
import os
import subprocess


def count_calls(meshc, arguments, libraries, *members):
    """Compiles for GPUs without a mesh; (name of the function, its arguments `members`)
    -> how often one step calls it."""
    program = f"{meshc.folder.name}/program"
    meshc.run("compile", *arguments, "--mesh", "", "--layout", "", "--target", "cuda",
              "--gpu", "host", "-o", program)
    counts = []
    for steps in (1, 2):
        log = f"{meshc.folder.name}/log"
        if os.path.exists(log):
            os.remove(log)
        subprocess.run([program, "bench", "--steps", str(steps), "--no-graphs"], check=True,
                       capture_output=True,
                       env=dict(os.environ, MESHC_CUDA_LIBRARIES=libraries,
                                MESHC_EMULATION_LOG=log))
        count = collections.Counter()
        with open(log, encoding="utf-8") as lines:
            for call in map(json.loads, lines):
                if "call" in call:
                    count[(call["call"], *(call.get(member, 0) for member in members))] += 1
        counts.append(count)
    return counts[1] - counts[0]
