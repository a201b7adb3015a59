"""A router policy as a process: replay writes a line for each decision, and reads a worker id.

The policy considers the workers with at least half of the prompt cached, or all workers if there is no such worker. It
chooses the worker with the fewest prompt tokens to compute.

    replay trace TRACE --workers 8 --policy-process 'python3 examples/policy-process/python/policy.py'
"""

import json
import sys

greeting = json.loads(sys.stdin.readline())  # role, block_tokens, workers, the names of all facts
print(json.dumps({"version": 1, "facts": ["request.blocks", "cached_blocks", "tokens_to_compute"]}), flush=True)

for line in sys.stdin:
    ids, blocks, cached, to_compute = json.loads(line)
    workers = range(len(ids))
    near = [i for i in workers if cached[i] >= 0.5 * blocks] or workers
    print(ids[min(near, key=to_compute.__getitem__)], flush=True)
