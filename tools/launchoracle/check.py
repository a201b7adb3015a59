"""Gives start commands to the parsers of their programs. See run."""
import argparse
import contextlib
import importlib.util
import io
import os
import shlex
import sys
import types

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vllmoracle"))
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
import stubs  # noqa: E402

# Parts of SGLang that declare its arguments; the rest is a stand-in.
ARGUMENTS = ("sglang.srt.server_args", "sglang.srt.arg_groups", "sglang.srt.environ", "sglang.srt.parser.reasoning_parser_names",
             "sglang.srt.function_call.parser_names", "sglang.srt.model_executor.cuda_graph_config")
# Arguments of Dynamo's workers, which take those of their engines besides.
DYNAMO = {"--disaggregation-mode"}


for kind in (stubs.Meta, stubs.Thing):
    kind.__neg__ = kind.__invert__ = kind.__pos__ = lambda thing: thing  # of constants such as the largest value of a type


def declares(name):
    return any(name == part or name.startswith(part + ".") or part.startswith(name + ".") for part in ARGUMENTS)


class Others(stubs.Finder):
    """Stand-ins for the rest of SGLang."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith("sglang.") or declares(name):
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = []
        return spec


class Missing(stubs.Finder):
    """Stand-ins for all packages that are not installed."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in ("vllm", "sglang", "vllm_router", "sglang_router") and not name.endswith("_rs"):  # which are compiled
            return None
        if top in sys.stdlib_module_names or top not in ("vllm_router", "sglang_router") and importlib.machinery.PathFinder.find_spec(top) is not None:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = []
        return spec


class GPU:
    """Stands in for the platform."""

    device_type, device_name, simple_compile_backend = "cuda", "cuda", "inductor"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: name in ("is_cuda", "is_cuda_alike")


def vllm_parser():
    from vllm import platforms

    platforms._current_platform = GPU()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    AsyncEngineArgs.add_cli_args(parser)
    return parser


def sglang_parser():
    where = importlib.util.find_spec("sglang").submodule_search_locations[0]
    for name in ("sglang", "sglang.srt", "sglang.srt.parser", "sglang.srt.function_call", "sglang.srt.model_executor"):
        package = types.ModuleType(name)  # without what its own __init__ imports
        package.__path__ = [os.path.join(where, *name.split(".")[1:])]
        sys.modules[name] = package
    sys.meta_path.insert(0, Others())
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def router_parser(package):
    module = importlib.import_module(package + ".router_args")
    parser = argparse.ArgumentParser()
    module.RouterArgs.add_cli_args(parser, use_router_prefix=False, exclude_host_port=False)
    return parser


PROGRAMS = [
    (["vllm", "serve"], vllm_parser),
    (["-m", "dynamo.vllm"], vllm_parser),
    (["-m", "sglang.launch_server"], sglang_parser),
    (["-m", "dynamo.sglang"], sglang_parser),
    (["vllm-router"], lambda: router_parser("vllm_router")),
    (["-m", "sglang_router.launch_router"], lambda: router_parser("sglang_router")),
]


def commands(path):
    """The words of the commands in a file."""
    text = open(path).read()
    if path.endswith(".sh"):
        lines = text.replace("\\\n", " ").splitlines()
        yield from (shlex.split(line) for line in lines if line and not line.startswith("#"))
        return
    for document in yaml.safe_load_all(text):
        yield from containers(document)


def containers(value):
    if isinstance(value, list):
        for x in value:
            yield from containers(x)
    elif isinstance(value, dict):
        words = value.get("command", [])
        if isinstance(words, list) and words:
            yield words + value.get("args", [])
        for x in value.values():
            yield from containers(x)


def rest_of(words):
    """The parser of a command, and its arguments."""
    for begin, parser in PROGRAMS:
        for i in range(len(words)):
            if words[i:i + len(begin)] == begin:
                return begin[-1], parser, words[i + len(begin):]
    return None, None, None


def main(paths):
    stubs.install()
    sys.meta_path.append(Missing())
    parsers, checked, wrong = {}, 0, 0
    for path in paths:
        for words in commands(path):
            program, make, arguments = rest_of(words)
            if program is None:
                continue
            if make not in parsers:
                parsers[make] = make()
            if program == "dynamo.vllm":
                arguments = [w for i, w in enumerate(arguments) if w not in DYNAMO and (i == 0 or arguments[i - 1] not in DYNAMO)]
            checked += 1
            said = io.StringIO()
            try:
                with contextlib.redirect_stderr(said):
                    _, unknown = parsers[make].parse_known_args(arguments)
                if unknown:
                    raise SystemExit(f"unknown arguments {unknown}")
            except SystemExit as e:
                wrong += 1
                print(f"{os.path.basename(path)}: {program}: {e}: {said.getvalue().strip()[-300:]}")
    print(f"{checked} commands, {wrong} refused")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
