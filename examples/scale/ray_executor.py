"""A Ray executor for replay.sweep. Ray's object store sends the trace to each node once.

    ray.init(address="auto")
    replay.sweep(trace="requests.jsonl", grid={"workers": [2, 4, 8]}, executor=RayExecutor())

All nodes must have the package replay. Ray reruns the tasks of a lost node.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any

import ray


class RayExecutor(concurrent.futures.Executor):
    """Runs functions as Ray tasks, each on one CPU."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        return remote(function).remote(*args, **kwargs).future()  # type: ignore[no-any-return]

    def share(self, data: bytes) -> Callable[[], bytes]:
        """Put data into the object store, and return a function that reads data on any node."""
        return functools.partial(ray.get, ray.put(data))


@functools.cache
def remote(function: Callable[..., Any]) -> Any:
    return ray.remote(max_retries=3, scheduling_strategy="SPREAD")(function)  # by default Ray fills one node first
