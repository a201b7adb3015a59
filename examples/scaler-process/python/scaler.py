"""An autoscaler that replay asks line by line.

Two workers more when one has more than 12 requests in flight or requests are held back, at most every 30 s; one worker
less when so few would do with 6 requests each, and nothing has changed for 60 s.

    replay trace TRACE --autoscale examples/scaler-process/python/process.yaml
"""

import json
import sys

greeting = json.loads(sys.stdin.readline())  # role, least, most, sync, the names of all facts
print(json.dumps({"version": 1}), flush=True)

acted = float("-inf")  # when the number of workers was changed last, in ms
for line in sys.stdin:
    tick = json.loads(line)
    now, workers, in_flight = tick["now"], tick["workers"], tick["in_flight"]
    want, why = workers, "nothing has been read"  # what is scraped is null then
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
