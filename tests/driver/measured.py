"""Damages the measurement of a host in every way that a reader has to find.

    measured.py CACHE COMMAND...
"""

import glob
import json
import os
import subprocess
import sys

cache, command = sys.argv[1], sys.argv[2:]
(path,) = glob.glob(os.path.join(cache, "host-*.json"))
with open(path, encoding="utf-8") as file:
    sound = file.read()


def change(**fields):
    return json.dumps({**json.loads(sound), **fields})


def change_constant(name, value):
    constants = json.loads(sound)["constants"]
    constants[name] = value
    return change(constants={key: number for key, number in constants.items()
                             if number is not None})


CASES = [
    ("", "it is damaged"),
    (sound[:len(sound) // 2], "it is damaged: no JSON"),
    ("[]", 'it is damaged: no "version"'),
    (change(version="1"), 'it is damaged: no "version"'),
    (change(version=3), "it has version 3, this meshc reads 2"),
    (change(runtime="meshc 0.0.9"), "it was measured with 'meshc 0.0.9', this is 'meshc "),
    (change(processor="another"), "it was measured on 'another' with "),
    (change(cores=4097), "with 4097 cores, this is "),
    (change_constant("command_us", None), 'it is damaged: no "command_us"'),
    (change_constant("command_us", 0), 'it is damaged: "command_us" is 0'),
    (change_constant("far_bytes", -5), 'it is damaged: "far_bytes" is -5'),
]


def run():
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "MESHC_CACHE_DIR": cache, "NO_COLOR": "1"})


for text, reason in CASES:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    result = run()
    expected = ["error[MC0811]: cannot use the measurement '", reason,
                "'meshc doctor --measure' measures this host again"]
    missing = [part for part in expected if part not in result.stderr]
    if result.returncode != 1 or missing:
        sys.exit(f"{text!r}: exit code {result.returncode}, {missing} not in:\n{result.stderr}")
with open(path, "w", encoding="utf-8") as file:
    file.write(sound)
if run().returncode != 0:
    sys.exit("the sound measurement is refused")
