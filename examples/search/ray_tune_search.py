"""Search router weights and batch limits for a trace with Ray Tune.

    python ray_tune_search.py testdata/traces/chat-hour.jsonl 40

Ray Tune reuses actors. Each actor has one session, so it reads the trace once. The same seed gives the same settings and results.
Most of the time of a trial is the overhead of Ray Tune.
"""

import os
import sys
import tempfile
from typing import Any

import ray
from ray import tune

import replay

BASE: dict[str, Any] = {"speedup": 16, "gpu": "h100", "model": "llama-3.1-8b", "workers": 8, "router": "kv"}


class Replayed(tune.Trainable):
    """A trial: one replay."""

    def setup(self, config: dict[str, Any], trace: str = "") -> None:
        self.session = replay.Session(trace, **BASE)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True  # the session serves all trials

    def step(self) -> dict[str, Any]:
        report = self.session.run(**self.config).report
        return {"p99_ttft_ms": report["p99_ttft_ms"], "p99_itl_ms": report["p99_itl_ms"], "done": True}

    def cleanup(self) -> None:
        self.session.close()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Do nothing: a trial has only one step."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: a trial has only one step."""


def search(trace: str, trials: int, seed: int = 1) -> tune.ResultGrid:
    """Run the search and return the results."""
    space = {
        "overlap_score_credit": tune.uniform(0, 1),
        "prefill_load_scale": tune.loguniform(0.1, 10),
        "max_num_batched_tokens": tune.qrandint(512, 16384, 512),
        "max_num_seqs": tune.qrandint(32, 512, 32),
    }
    sampler = tune.search.basic_variant.BasicVariantGenerator(random_state=seed)
    trainable = tune.with_parameters(Replayed, trace=os.path.abspath(trace))
    how = tune.TuneConfig(metric="p99_ttft_ms", mode="min", num_samples=trials, reuse_actors=True, search_alg=sampler)
    with tempfile.TemporaryDirectory() as folder:
        return tune.Tuner(trainable, param_space=space, tune_config=how, run_config=tune.RunConfig(verbose=0, storage_path=folder)).fit()


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    results = search(sys.argv[1], int(sys.argv[2]))
    best = results.get_best_result()
    print(f"{len(results)} trials: {(best.metrics or {})['p99_ttft_ms']:.1f} at best with {best.config}")


if __name__ == "__main__":
    main()
