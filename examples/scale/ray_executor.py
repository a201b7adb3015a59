"""An executor of Ray for replay.sweep. The trace goes through the object store, once to each node.

    ray.init(address="auto")
    replay.sweep(trace="requests.jsonl", grid={"workers": [2, 4, 8]}, executor=RayExecutor())

All nodes have the package replay. Ray runs the tasks of a node that is lost again.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any

import ray


class RayExecutor(concurrent.futures.Executor):
    """Runs functions as tasks of Ray, on one CPU each."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        return remote(function).remote(*args, **kwargs).future()  # type: ignore[no-any-return]

    def share(self, data: bytes) -> Callable[[], bytes]:
        """Put data into the object store, and return a function that gets it on any node."""
        return functools.partial(ray.get, ray.put(data))


@functools.cache
def remote(function: Callable[..., Any]) -> Any:
    return ray.remote(max_retries=3)(function)
