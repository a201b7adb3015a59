"""A caller with the Python package of Dynamo. interop_test.go runs it.

Each line of standard input is a call as JSON. The caller prints the answer of each call as a line of JSON.
"""

import asyncio
import json
import sys
import time

from dynamo.runtime import Context, DistributedRuntime


def say(**kind):
    print(json.dumps(kind), flush=True)


async def call(client, line):
    # The client may know an instance and not route to it yet.
    until = time.monotonic() + 10
    while True:
        context = Context()
        items = []
        try:
            stream = await client.round_robin(line["request"], context=context)
            async for item in stream:
                items.append(item.data())
                if item.is_error():
                    items.append({"error": str(item.comments())})
                if len(items) == line.get("stop_after"):
                    context.stop_generating()
            return say(items=items)
        except Exception as e:
            if "no instances found" not in str(e) or time.monotonic() > until:
                return say(items=items, error=type(e).__name__ + ": " + str(e))
        await asyncio.sleep(0.05)


async def main():
    runtime = DistributedRuntime(asyncio.get_running_loop(), "etcd", sys.argv[2])
    client = await runtime.endpoint(sys.argv[1]).client()
    await client.wait_for_instances()
    say(instances=client.instance_ids())
    for line in sys.stdin:
        await call(client, json.loads(line))
    runtime.shutdown()


asyncio.run(main())
