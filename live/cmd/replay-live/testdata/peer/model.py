"""A worker of the Python package of Dynamo that registers a model. interop_test.go runs it."""

import asyncio
import sys

from dynamo.llm import ModelInput, ModelType, register_model
from dynamo.runtime import DistributedRuntime


async def generate(request, context):
    n = request["stop_conditions"]["max_tokens"]
    for i in range(n):
        item = {"token_ids": [100 + i]}
        if i == n - 1:
            item["finish_reason"] = "length"
        yield item


async def main():
    plane, path, name = sys.argv[1:]
    runtime = DistributedRuntime(asyncio.get_running_loop(), "etcd", plane)
    endpoint = runtime.endpoint("theirs.backend.generate")
    role = {}
    try:
        from dynamo.llm import WorkerType

        role["worker_type"] = WorkerType.Aggregated
    except ImportError:
        pass  # older releases have no WorkerType
    kinds = ModelType.Chat | ModelType.Completions
    await register_model(ModelInput.Tokens, kinds, endpoint, path, name, kv_cache_block_size=16, **role)
    await endpoint.serve_endpoint(generate)


asyncio.run(main())
