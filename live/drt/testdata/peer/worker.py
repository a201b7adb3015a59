"""A worker with the Python package of Dynamo. It answers {"n": N} with N items. interop_test.go runs it."""

import asyncio
import sys

from dynamo.runtime import DistributedRuntime


def say(text):
    print(text, flush=True)


async def generate(request, context):
    say("request " + context.id())
    try:
        for i in range(request["n"]):
            if context.is_stopped() or context.is_killed():
                say("stopped" if not context.is_killed() else "killed")
                return
            yield {"token_ids": [i]}
            if request.get("slow"):
                await asyncio.sleep(0.01)
        if request.get("fail"):
            raise ValueError("on request")
        yield {"token_ids": [], "finish_reason": "length"}
        say("done")
    except asyncio.CancelledError:
        say("stopped")
        raise


async def main():
    runtime = DistributedRuntime(asyncio.get_running_loop(), "etcd", sys.argv[2])
    endpoint = runtime.endpoint(sys.argv[1])
    say("serving")
    await endpoint.serve_endpoint(generate)


asyncio.run(main())
