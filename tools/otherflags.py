"""Write the command-line flags of other tools, from their installed sources, for internal/cmd/cli/testdata/otherflags.txt.

    python3 tools/otherflags.py SITE-PACKAGES... > internal/cmd/cli/testdata/otherflags.txt

The sources are parsed, not run. A directory contains one or more packages. Each release of a package requires a separate directory.
The script internal/cmd/dropin/testdata/record.py records the flags of `vllm serve` and sglang.launch_server.
"""
import ast
import sys
from pathlib import Path

# Tool, package, and the files and folders that declare flags.
TOOLS = [
    ("dynamo.replay", "ai_dynamo", ["dynamo/replay/main.py"]),
    ("dynamo.mocker", "ai_dynamo", ["dynamo/mocker/args.py"]),
    ("vllm bench serve", "vllm", ["vllm/benchmarks/serve.py", "vllm/benchmarks/datasets"]),
    ("sglang.bench_serving", "sglang", ["sglang/benchmark/serving.py", "sglang/benchmark/datasets"]),
    ("AIPerf", "aiperf", ["aiperf/config/flags/cli_config.py"]),
    ("GuideLLM", "guidellm", ["guidellm/__main__.py", "guidellm/cli/run.py", "guidellm/schemas/benchmark/entrypoints.py"]),
]
DECLARE = {"add_argument", "option", "CLIParameter"}  # functions that declare flags


def flag(name):
    return "--" + name.lstrip("-").replace("_", "-")


def called(node):
    return getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""


def texts(node):
    """Return the string constants of an expression."""
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def declared(tree):
    """Yield the flags that a syntax tree declares."""
    for node in ast.walk(tree):
        if called(node) in DECLARE:
            values = list(node.args) + [k.value for k in node.keywords if k.arg == "name"]
            yield from (text for value in values if not isinstance(value, ast.Call) for text in texts(value) if text.startswith("--") and " " not in text)
        elif isinstance(node, ast.Dict):  # flags of GuideLLM's settings
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and key.value == "argument_alias":
                    yield flag(value.value)


def main():
    for tool, package, places in TOOLS:
        for site in map(Path, sys.argv[1:]):
            found = set()
            for place in places:
                for path in [site / place] if place.endswith(".py") else sorted((site / place).glob("*.py")):
                    if path.exists():
                        found.update(declared(ast.parse(path.read_text())))
            if found:
                info = next(site.glob(f"{package}-*.dist-info"))
                print(f"# {tool} {info.name.removesuffix('.dist-info').partition('-')[2]}")
                print(*sorted(found), sep="\n")


main()
