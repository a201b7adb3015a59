"""An autoscaler as a process: replay writes a line of JSON for each tick, and reads the number of workers.

It adds two workers if a worker has more than 12 requests in flight or the router holds requests. It removes one worker if
the remaining workers would have fewer than 6 requests in flight each. It scales up at the earliest 30 s after the last
change, and down at the earliest 60 s after the last change.

    replay trace TRACE --autoscale examples/scaler-process/python/process.yaml
"""

import json
import sys

greeting = json.loads(sys.stdin.readline())  # has role, least, most, sync, and the names of all facts
print(json.dumps({"version": 1}), flush=True)

acted = float("-inf")  # time of the last change of the number of workers (ms)
for line in sys.stdin:
    tick = json.loads(line)
    now, workers, in_flight = tick["now"], tick["workers"], tick["in_flight"]
    want, why = workers, "nothing has been read"  # scraped facts are null before the first scrape
    if in_flight is not None:
        why = "enough"
        if any(n > 12 for n in in_flight) or tick["held"] > 0:
            want, why = workers + 2, f"{max(in_flight, default=0)} in flight on one worker, {tick['held']} held"
        elif tick["in_flight_total"] < 6 * (workers - 1):
            want, why = workers - 1, f"{tick['in_flight_total']} in flight on {workers}"
        want = min(max(want, tick["least"]), tick["most"])
        if want != workers and now - acted < (30_000 if want > workers else 60_000):
            want, why = workers, "too soon"
        if want != workers:
            acted = now
    print(json.dumps({"workers": want, "why": why}), flush=True)
