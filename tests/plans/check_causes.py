"""Every collective of every sample has a cause, whose spans are the lines that it speaks of:
where its consumer stands, where the value that it read is made, and the layout rules of the
dimensions that it names. It stands at one of these lines itself, whatever it is sent with."""

import re
import sys

import cases
import compiler

SAMPLES = {
    **cases.CASES,
    "convnet": ["samples/convnet.mesh", "--mesh", "data=2,rows=3"],
    **{f"layouts/{name}": [f"samples/layouts/{name}.mesh"]
       for name in ("data", "experts", "fsdp", "hybrid", "megatron", "sequence", "spatial", "tensor",
                    "ulysses", "zero1", "zero3")},
    "gru": ["bench/gru.mesh"],
    "residual": ["bench/residual.mesh"],
    "mlp4096": ["bench/mlp4096.mesh"],
}
# What a rule says of dimensions that the layout splits.
SPLIT = re.compile(r'(?:over split dimensions? |layout rule |dimensions )((?:"[^"]+"(?:, | and )?)+)')


class Texts:
    """The text that a span covers."""

    def __init__(self, plan):
        self.lines = {file["path"]: (file["text"] or "").split("\n") for file in plan["spec"]["files"]}

    def get(self, span):
        lines = self.lines[span["path"]][span["line"] - 1:span["end_line"]]
        lines[-1] = lines[-1][:span["end_column"] - 1]
        lines[0] = lines[0][span["column"] - 1:]
        return "\n".join(lines)


def check_cause(where, cause, texts, values, axes):
    spans = [span for span in cause["spans"] if span]
    assert spans, f"{where}: no span"
    for span in spans:
        text = texts.get(span)
        assert text.strip() and not text.lstrip().startswith("//"), f"{where}: a span covers '{text}'"
    named = [value["span"] for value in values.get(cause["consumer"], []) if value["span"]]
    if named and not cause["consumer"].startswith(("update of", "gradient of")):
        lines = [(span["path"], span["line"]) for span in spans]
        assert any((span["path"], span["line"]) in lines for span in named), \
            f"{where}: {cause['consumer']} stands at {named}, the spans are {spans}"
    for names in SPLIT.findall(cause["rule"]):
        for dim in re.findall(r'"([^"]+)"', names):
            # In the spec "batch -> data", "(batch, pos) -> data", in an option "batch=data", of
            # axes that the mesh has.
            rule = re.compile(rf"\b{re.escape(dim)}(?:\s*,[^()]*)?\)?\s*(?:->|=)\s*\(?\s*(?:{axes})")
            assert any(rule.search(texts.get(span)) for span in spans), \
                f"{where}: no rule of {dim} among {[texts.get(span) for span in spans]}"


def main():
    meshc = compiler.Compiler(*sys.argv[1:3])
    total = 0
    for name, arguments in SAMPLES.items():
        plan = meshc.plan(*arguments)
        texts = Texts(plan)
        values = {}
        for tensor in plan["tensors"]:
            values.setdefault(tensor["name"], []).append(tensor)
        axes = "|".join(re.escape(axis["name"]) for axis in plan["mesh"]["axes"])
        for collective in plan["collectives"]:
            causes = [collective["cause"], *collective.get("merged_causes", [])]
            assert all(first != second for place, first in enumerate(causes) for second in causes[:place]), \
                f"{name}: {collective['id']} has a cause twice"
            assert collective["span"] == causes[0]["spans"][0], \
                f"{name}: {collective['id']} stands at {collective['span']}, not where it is asked for"
            for cause in causes:
                check_cause(f"{name}: {collective['id']} ({cause['rule']})", cause, texts, values, axes)
                total += 1
    assert total > 300, total
    print(f"{total} causes of {len(SAMPLES)} plans")


main()
