"""Print how a server of a vLLM release schedules with each method of speculative_config.

Each row is for one method and one value of async_scheduling (null: not set). vLLM's own configuration decides (config.py).
The header of run shows the command. The file testdata/vllm/methods.jsonl has the rows of all releases.
"""
import json
import sys

import main
from config import Refused, configure

METHODS = ("eagle", "eagle3", "mtp", "draft_model", "ngram", "ngram_gpu", "suffix", "medusa")


def rows(release):
    for method in METHODS:
        for given in (None, True, False):
            s = main.settle({"async_scheduling": given, "speculative_config": {"method": method, "num_speculative_tokens": 3, "acceptance_rate": 0.5}})
            row = {"release": release, "method": method, "set": given}
            try:
                c = configure(s)
                row["async_scheduling"] = bool(c.scheduler_config.async_scheduling)
                row["budget"] = c.scheduler_config.max_num_scheduled_tokens
            except Refused:
                row["refused"] = True
            yield row


if __name__ == "__main__":
    for r in rows(sys.argv[1]):
        print(json.dumps(r))
