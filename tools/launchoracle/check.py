"""Check start commands with the argument parsers of their programs. The header of run shows the command."""
import argparse
import contextlib
import functools
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

# Modules of SGLang that declare its arguments. All other modules of SGLang are stand-ins.
ARGUMENTS = ("sglang.srt.server_args", "sglang.srt.arg_groups", "sglang.srt.environ", "sglang.srt.parser.reasoning_parser_names",
             "sglang.srt.function_call.parser_names", "sglang.srt.model_executor.cuda_graph_config")
# Modules of Dynamo that are stand-ins: compiled modules, and modules that only a running server uses.
DYNAMO = ("dynamo._core", "dynamo.llm", "dynamo.runtime", "dynamo.nixl_connect", "dynamo.prometheus_names")


for kind in (stubs.Meta, stubs.Thing):
    kind.__neg__ = kind.__invert__ = kind.__pos__ = lambda thing: thing  # for constants such as the largest value of a type


def declares(name):
    return any(name == part or name.startswith(part + ".") or part.startswith(name + ".") for part in ARGUMENTS)


class Others(stubs.Finder):
    """Stand-ins for the modules of SGLang that do not declare arguments."""

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
        if any(name == part or name.startswith(part + ".") for part in DYNAMO):
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = []
            return spec
        if top in ("vllm", "sglang", "vllm_router", "sglang_router") and not name.endswith("_rs"):  # modules *_rs are compiled
            return None
        if top in sys.stdlib_module_names or top not in ("vllm_router", "sglang_router") and importlib.machinery.PathFinder.find_spec(top) is not None:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = []
        return spec


class GPU:
    """Stand-in for vLLM's platform: a CUDA GPU."""

    device_type, device_name, simple_compile_backend = "cuda", "cuda", "inductor"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: name in ("is_cuda", "is_cuda_alike")


@functools.cache
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


@functools.cache
def sglang_parser():
    where = importlib.util.find_spec("sglang").submodule_search_locations[0]
    for name in ("sglang", "sglang.srt", "sglang.srt.parser", "sglang.srt.function_call", "sglang.srt.model_executor"):
        package = types.ModuleType(name)  # an empty package, without the imports of its __init__
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


def strict(make):
    """Return a function that raises SystemExit for arguments that the parser of make does not know."""
    parser = make()

    def read(arguments):
        _, unknown = parser.parse_known_args(arguments)
        if unknown:
            raise SystemExit(f"unknown arguments {unknown}")

    return read


def dynamo(engine, group, config, make):
    """Return a function that checks the arguments of a Dynamo worker.

    Dynamo's parser reads the arguments that it knows. The engine's parser must know all other arguments.
    """
    from dynamo.common.configuration.groups.runtime_args import DynamoRuntimeArgGroup, DynamoRuntimeConfig

    module = importlib.import_module(f"dynamo.{engine}.backend_args")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    getattr(module, group)().add_arguments(parser)
    own = getattr(module, config)
    rest = make() if make else None

    def read(arguments):
        known, unknown = parser.parse_known_args(arguments)
        for kind in (DynamoRuntimeConfig, own):
            kind.validate(kind.from_cli_args(known))
        if rest is not None:
            parsed, unknown = rest.parse_known_args(unknown)
            if engine == "sglang" and parsed.schedule_low_priority_values_first:  # as in dynamo.sglang.args
                raise SystemExit("--schedule-low-priority-values-first is refused")
        if unknown:
            raise SystemExit(f"unknown arguments {unknown}")

    return read


def frontend():
    """Return a function that checks the environment variables of Dynamo's front end, which set its arguments."""
    from dynamo.frontend.frontend_args import FrontendArgGroup, FrontendConfig

    def read(variables):
        for name, value in variables:
            os.environ[name] = value
        parser = argparse.ArgumentParser(allow_abbrev=False)
        FrontendArgGroup().add_arguments(parser)
        known = parser.parse_args([f"--router-mode={os.environ.get('DYN_ROUTER_MODE', 'round-robin')}"])  # given as an argument, so that the value is checked
        FrontendConfig.validate(FrontendConfig.from_cli_args(known))
        for name, _ in variables:
            del os.environ[name]

    return read


PROGRAMS = [
    (["vllm", "serve"], lambda: strict(vllm_parser)),
    (["-m", "dynamo.vllm"], lambda: dynamo("vllm", "DynamoVllmArgGroup", "DynamoVllmConfig", vllm_parser)),
    (["-m", "sglang.launch_server"], lambda: strict(sglang_parser)),
    (["-m", "dynamo.sglang"], lambda: dynamo("sglang", "DynamoSGLangArgGroup", "DynamoSGLangConfig", sglang_parser)),
    (["-m", "dynamo.trtllm"], lambda: dynamo("trtllm", "DynamoTrtllmArgGroup", "DynamoTrtllmConfig", None)),
    (["-m", "dynamo.frontend"], frontend),
    (["vllm-router"], lambda: strict(lambda: router_parser("vllm_router"))),
    (["-m", "sglang_router.launch_router"], lambda: strict(lambda: router_parser("sglang_router"))),
]


def engine_settings(path):
    """Yield the settings of trtllm-serve from a settings file, or from the ConfigMaps of a manifest."""
    if path.endswith("trtllm.yaml"):
        yield yaml.safe_load(open(path))
    elif path.endswith(".yaml"):
        for document in yaml.safe_load_all(open(path)):
            if document.get("kind") == "ConfigMap":
                yield from (yaml.safe_load(text) for name, text in document["data"].items() if name.endswith("trtllm.yaml"))


def check_settings(paths):
    """Check settings of trtllm-serve with TensorRT-LLM's own class. Return the number of checked and of rejected settings."""
    from tensorrt_llm.llmapi.llm_args import TorchLlmArgs

    checked = wrong = 0
    for path in paths:
        for settings in engine_settings(path):
            checked += 1
            try:
                TorchLlmArgs(model="model", skip_tokenizer_init=True, **settings)
            except Exception as e:
                wrong += 1
                print(f"{os.path.basename(path)}: TorchLlmArgs: {e}")
    return checked, wrong


def commands(path):
    """Yield the words of each command in a file."""
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
        if value.get("componentType") == "frontend":
            yield ["-m", "dynamo.frontend"] + [(x["name"], x["value"]) for x in value.get("envs", [])]
        if isinstance(words, list) and words:
            yield words + value.get("args", [])
        for x in value.values():
            yield from containers(x)


def rest_of(words):
    """Return the program of a command, the function that makes its reader, and its arguments."""
    for begin, parser in PROGRAMS:
        for i in range(len(words)):
            if words[i:i + len(begin)] == begin:
                return begin[-1], parser, words[i + len(begin):]
    return None, None, None


def main(paths):
    if importlib.util.find_spec("tensorrt_llm") is not None:  # the environment has TensorRT-LLM
        checked, wrong = check_settings(paths)
        print(f"{checked} files of trtllm-serve, {wrong} refused")
        return 1 if wrong or not checked else 0
    stubs.install()
    sys.meta_path.append(Missing())
    readers, checked, wrong = {}, 0, 0
    for path in paths:
        for words in commands(path):
            program, make, arguments = rest_of(words)
            if program is None:
                continue
            if program not in readers:
                readers[program] = make()
            checked += 1
            said = io.StringIO()
            try:
                with contextlib.redirect_stderr(said):
                    readers[program](arguments)
            except (SystemExit, ValueError) as e:
                wrong += 1
                print(f"{os.path.basename(path)}: {program}: {e}: {said.getvalue().strip()[-300:]}")
    print(f"{checked} commands, {wrong} refused")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
