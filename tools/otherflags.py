"""Writes the flags of other tools, as their installed sources declare them, to internal/cmd/cli/testdata/otherflags.txt.

    python3 tools/otherflags.py SITE-PACKAGES... > internal/cmd/cli/testdata/otherflags.txt

Sources are parsed and not run. A directory holds one or several of the packages; several releases of one are given as several directories.
"""
import ast
import sys
from pathlib import Path

# By tool: its package, and the files and folders with flags. Fields of classes that end in Args are flags of these files.
TOOLS = [
    ("dynamo.replay", "ai_dynamo", ["dynamo/replay/main.py"], None),
    ("dynamo.mocker", "ai_dynamo", ["dynamo/mocker/args.py"], None),
    ("vllm serve", "vllm", ["vllm/engine/arg_utils.py", "vllm/entrypoints/common/cli_args.py"], "vllm/entrypoints/common/cli_args.py"),
    ("vllm bench serve", "vllm", ["vllm/benchmarks/serve.py", "vllm/benchmarks/datasets"], None),
    ("sglang.launch_server", "sglang", ["sglang/srt/server_args.py", "sglang/srt/arg_groups/fields"], "sglang/srt/arg_groups/fields"),
    ("sglang.bench_serving", "sglang", ["sglang/benchmark/serving.py", "sglang/benchmark/datasets"], None),
    ("AIPerf", "aiperf", ["aiperf/config/flags/cli_config.py"], None),
    ("GuideLLM", "guidellm", ["guidellm/__main__.py", "guidellm/cli/run.py", "guidellm/schemas/benchmark/entrypoints.py"], None),
]
DECLARE = {"add_argument", "option", "CLIParameter"}  # functions


def flag(name):
    return "--" + name.lstrip("-").replace("_", "-")


def called(node):
    return getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""


def texts(node):
    """Return the texts in an expression."""
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def declared(tree):
    """Return the flags that functions declare."""
    for node in ast.walk(tree):
        if called(node) in DECLARE:
            values = list(node.args) + [k.value for k in node.keywords if k.arg == "name"]
            yield from (text for value in values if not isinstance(value, ast.Call) for text in texts(value) if text.startswith("--") and " " not in text)
        elif isinstance(node, ast.Dict):  # of GuideLLM's model
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and key.value == "argument_alias":
                    yield flag(value.value)


def fields(tree):
    """Return the flags that are fields of classes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        named, hidden = [flag(node.target.id)], False
        for call in ast.walk(node.annotation):
            if called(call) == "Arg":
                for k in call.keywords:
                    hidden = hidden or k.arg == "no_cli" and getattr(k.value, "value", False)
                    if k.arg == "cli_name" and isinstance(k.value, ast.Constant):
                        named[0] = k.value.value
                    if k.arg == "aliases":
                        named += texts(k.value)
        if not hidden:
            yield from named


def main():
    for tool, package, places, classes in TOOLS:
        for site in map(Path, sys.argv[1:]):
            found = set()
            for place in places:
                for path in [site / place] if place.endswith(".py") else sorted((site / place).glob("*.py")):
                    if path.exists():
                        tree = ast.parse(path.read_text())
                        found.update(declared(tree))
                        if classes and path.is_relative_to(site / classes):
                            found.update(fields(tree))
            if found:
                info = next(site.glob(f"{package}-*.dist-info"))
                print(f"# {tool} {info.name.removesuffix('.dist-info').partition('-')[2]}")
                print(*sorted(found), sep="\n")


main()
