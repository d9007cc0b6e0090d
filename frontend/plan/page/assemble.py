#!/usr/bin/env python3
"""Joins the template, the style, the scripts and one or two plans into one HTML file.

    assemble.py PLAN.json [OTHER.json] -o OUT.html

The plans are those of `meshc plan --emit json`; of two the second is compared.
"""

import argparse
import base64
import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent

# The order in which the scripts stand inside the one function of the page.
SCRIPTS = (
    "types.js", "text.js", "draw.js", "axes.js", "model.js", "fold.js", "blocks.js",
    "relations.js", "track.js", "page.js", "phrases.js", "source.js", "inspector.js",
    "verdict.js", "layout.js", "drawblocks.js", "devices.js", "mesh.js", "lanes.js",
    "drawgraph.js", "graph.js", "ledger.js", "timeline.js", "memory.js", "compare.js",
    "keys.js", "main.js",
)


def get_script():
    files = [(HERE / "js" / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "(() => {\n'use strict';\n" + "\n".join(files) + "})();\n"


def get_source_hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "'sha256-" + base64.b64encode(digest).decode() + "'"


def escape(plans):
    """JSON that ends no script element and begins no comment in one."""
    text = json.dumps(plans, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def assemble(plans):
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = get_script()
    policy = (f"default-src 'none'; script-src {get_source_hash(script)}; "
              f"style-src {get_source_hash(style)}; base-uri 'none'; form-action 'none'")
    page = (HERE / "page.html").read_text(encoding="utf-8")
    done, rest = "", page
    # What was put in is not searched again: a spec may have "@SCRIPT@" in it.
    for place, text in (("POLICY", policy), ("STYLE", style), ("DATA", escape(plans)),
                        ("SCRIPT", script)):
        head, rest = rest.split(f"@{place}@", 1)
        done += head + text
    return done + rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plan", nargs="+", help="the plan, and one that it is compared with")
    parser.add_argument("-o", required=True, metavar="OUT")
    arguments = parser.parse_args()
    if len(arguments.plan) > 2:
        parser.error("one plan or two")
    plans = [json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
             for path in arguments.plan]
    pathlib.Path(arguments.o).write_text(assemble(plans), encoding="utf-8")


if __name__ == "__main__":
    main()
