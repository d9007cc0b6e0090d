"""Every operation of the dialects, and what its description promises, has a test.

- An operation stands in tests/dialect/<dialect>-ops.mlir, which prints what it
  parsed.
- A numbered constraint, "- (C2) ..." in a description, is broken by a program in
  tests/dialect/*-invalid.mlir that expects `'nd.einsum' op (C2)`. Operations that
  share the sentence share the verifier: one of them is enough. A constraint of a
  type or attribute is expected as `(C2)` in tests/dialect/<mnemonic>-invalid.mlir.
- An operation that folds or canonicalizes stands in tests/dialect/canonicalize.mlir.

Arguments: repository, llvm-tblgen, include folders of MLIR.
"""

import json
import re
import subprocess
import sys

import tree

TBLGEN, *INCLUDES = sys.argv[2:]
DIALECTS = {"nd": "dialect/NDOps.td", "spmd": "dialect/SPMD.td",
            "exec": "codegen/exec/Exec.td"}
TESTS = tree.root() / "tests" / "dialect"
CONSTRAINT = re.compile(r"- \((C\d+)\) (.*?)(?=\n\s*- \(C\d|\n\s*\n|\Z)", re.DOTALL)


def records(path):
    command = [TBLGEN, "--dump-json", str(tree.root() / path)]
    command += [f"-I{folder}" for folder in [tree.root(), *INCLUDES]]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def constraints(record):
    """Label and sentence of each, with blanks made equal."""
    found = CONSTRAINT.findall(record.get("description") or "")
    return [(label, " ".join(sentence.split())) for label, sentence in found]


def text_of(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


def names_op(text, op):
    return re.search(rf"\b{re.escape(op)}(?![\w.])", text)


def check_ops(dialect, dump):
    """Problems of single operations; adds their constraints to the table."""
    examples = text_of(TESTS / f"{dialect}-ops.mlir")
    folds = text_of(TESTS / "canonicalize.mlir")
    table = {}
    ops = 0
    for name in dump["!instanceof"]["Op"]:
        record = dump[name]
        if dump[record["opDialect"]["def"]]["name"] != dialect:
            continue
        ops += 1
        op = f"{dialect}.{record['opName']}"
        if not names_op(examples, op):
            yield f"{op}: is not in tests/dialect/{dialect}-ops.mlir"
        simplifies = any(record[key] for key in
                         ("hasFolder", "hasCanonicalizer", "hasCanonicalizeMethod"))
        if simplifies and not names_op(folds, op):
            yield f"{op}: folds or canonicalizes, and is not in tests/dialect/canonicalize.mlir"
        for constraint in constraints(record):
            table.setdefault(constraint, []).append(op)
    if not ops:
        yield f"{dialect}: no operations"
    yield from check_constraints(table)


def check_constraints(table):
    broken = "\n".join(text_of(path) for path in sorted(TESTS.glob("*-invalid.mlir")))
    for (label, sentence), ops in table.items():
        if not any(f"'{op}' op ({label})" in broken for op in ops):
            yield f"{', '.join(ops)}: no test breaks ({label}) {sentence}"


def check_definitions(dump):
    """The same for types and attributes."""
    for name in dump["!instanceof"]["TypeDef"] + dump["!instanceof"]["AttrDef"]:
        record = dump[name]
        path = TESTS / f"{record['mnemonic']}-invalid.mlir"
        for label, sentence in constraints(record):
            if f"({label})" not in text_of(path):
                yield f"{name}: tests/dialect/{path.name} does not break ({label}) {sentence}"


def main():
    problems = []
    for dialect, path in DIALECTS.items():
        dump = records(path)
        problems += check_ops(dialect, dump)
        if dialect == "nd":
            problems += check_definitions(dump)
    tree.finish(problems)


main()
