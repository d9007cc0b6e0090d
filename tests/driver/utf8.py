"""What meshc says as JSON is UTF-8 whatever it is given: `utf8.py FOLDER`."""

import json
import os
import pathlib
import subprocess
import sys

folder = os.fsencode(sys.argv[1])
GOOD = b"dim batch = 4\nmodel m(x: f32[batch]) { output y = x }\n"
BAD = b"dim batch = 4 // \xff\xfe\xc3\nmodel m(x: f32[batch]) { output y = x }\n"
WRONG = GOOD.replace(b"[batch]", b"[bacth]")


def write(name, text):
    path = os.path.join(folder, name)
    pathlib.Path(os.fsdecode(path)).write_bytes(text)
    return path


def run(code, *words):
    done = subprocess.run([b"meshc", *words], capture_output=True, check=False)
    assert done.returncode == code, done
    return done


def check(*words):
    lines = run(1, b"check", b"--message-format", b"json", *words).stderr.decode("utf-8")
    messages = [json.loads(line) for line in lines.splitlines()]
    assert messages, words
    return messages


# Text that is no UTF-8, quoted with the error and in the text for people.
path = write(b"bad.mesh", BAD)
message, = check(path)
assert message["code"]["code"] == "MC0103"
assert "\ufffd" in message["spans"][0]["text"][0]["text"], message
assert "\ufffd" in message["rendered"]
assert run(1, b"check", path).stderr.decode("utf-8")
# In the name of a file, of one that is not there, in an option.
assert check(write(b"\xff.mesh", WRONG))[0]["spans"][0]["file_name"].endswith("\ufffd.mesh")
assert "\ufffd" in check(os.path.join(folder, b"none\xff"))[0]["message"]
assert check(write(b"good.mesh", GOOD), b"-D", b"batch=\xff")[0]["code"]["code"] == "MC0103"
# Plans too.
for name in (b"good.mesh", b"\xff.good.mesh"):
    plan = run(0, b"plan", b"--emit", b"json", write(name, GOOD)).stdout
    assert json.loads(plan.decode("utf-8")), name
