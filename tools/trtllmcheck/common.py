"""Functions of events.py and pauses.py: read arguments, load the engine, run replay, compare results.

The engine is `tensorrt_llm.LLM`. With --fake FILE it is the class LLM of a Python file, for a dry run without a GPU.
"""
import argparse
import importlib.util
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

BLOCK = 32  # tokens


def read_arguments(text):
    p = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="TinyLlama/TinyLlama-1.1B-Chat-v1.0", help="small model to run (default %(default)s)")
    p.add_argument("--replay", default="replay", help="command of replay, such as 'go run ./cmd/replay' (default %(default)s)")
    p.add_argument("--profile", default="trtllm-1.3", help="rules to compare with: trtllm-1.3 or trtllm-1.2 (default %(default)s)")
    p.add_argument("--fake", metavar="FILE", help="Python file with classes like those of tensorrt_llm, for a dry run")
    return p.parse_args()


def load_engine(fake):
    """Return the module with LLM, SamplingParams and the classes of settings."""
    if not fake:
        import tensorrt_llm
        import tensorrt_llm.llmapi as api
        for name in ("KvCacheConfig", "SchedulerConfig", "CapacitySchedulerPolicy"):
            setattr(tensorrt_llm, name, getattr(api, name))
        return tensorrt_llm
    spec = importlib.util.spec_from_file_location("fake_engine", fake)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tokens_of(request):
    """Return the tokens of a prompt. A token depends on the hash id of its block and on its position in the block."""
    return [1000 + 97 * (request["hash_ids"][i // BLOCK] % 100) + i % BLOCK for i in range(request["input_length"])]


def replay(command, mode, requests, flags):
    """Replay requests on one worker, and return the rows of the requests and the KV events."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        trace, rows, events = folder / "trace.jsonl", folder / "rows.jsonl", folder / "events.jsonl"
        trace.write_text("".join(json.dumps(r) + "\n" for r in requests))
        words = shlex.split(command) + [
            mode, str(trace), "--trace-block-size", str(BLOCK), "--engine", "trtllm", "--block-size", str(BLOCK),
            "--requests", str(rows), "--kv-events-file", str(events)] + flags
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return [[json.loads(line) for line in f.read_text().splitlines()] for f in (rows, events)]


def compare(what, engine, replayed):
    """Print both results, and return the exit code: 1 if they differ."""
    for side, value in (("engine", engine), ("replay", replayed)):
        print(f"{side}: {what}: {value}")
    if engine != replayed:
        print("different")
        return 1
    print("equal")
    return 0


def decoded(item):
    """Return statistics or events as an object. Some releases return JSON text."""
    return json.loads(item) if isinstance(item, str) else item


if __name__ == "__main__":
    sys.exit("run events.py or pauses.py")
