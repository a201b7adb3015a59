"""Search router weights and batch limits for a trace with Optuna.

    python optuna_search.py testdata/traces/chat-hour.jsonl 200

Two trials run at a time in one session. Optuna creates trials and receives their results in a fixed order, so the same seed gives
the same best trial.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import optuna

import replay

BATCH = 2  # number of trials that run at once
ITL_LIMIT = 50.0  # ms


def settings(trial: optuna.Trial) -> dict[str, Any]:
    """Return the settings of a trial."""
    return {
        "overlap_score_credit": trial.suggest_float("overlap_score_credit", 0, 1),
        "prefill_load_scale": trial.suggest_float("prefill_load_scale", 0.1, 10, log=True),
        "max_num_batched_tokens": trial.suggest_int("max_num_batched_tokens", 512, 16384, step=512),
        "max_num_seqs": trial.suggest_int("max_num_seqs", 32, 512, step=32),
    }


def score(run: replay.Run) -> float:
    """Return the p99 time to first token (ms), plus a penalty if the p99 inter-token latency is above ITL_LIMIT."""
    return float(run.report["p99_ttft_ms"] + 100 * max(0.0, run.report["p99_itl_ms"] - ITL_LIMIT))


def search(trace: str, trials: int, seed: int = 1) -> optuna.Study:
    """Run the search and return the study."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    base: dict[str, Any] = {"speedup": 16, "gpu": "h100", "model": "llama-3.1-8b", "workers": 3, "router": "kv"}
    with replay.Session(trace, processes=BATCH, **base) as session, ThreadPoolExecutor(BATCH) as threads:
        for _ in range(0, trials, BATCH):
            asked = [study.ask() for _ in range(BATCH)]
            runs = threads.map(lambda flags: session.run(**flags), [settings(trial) for trial in asked])
            for trial, run in zip(asked, runs):
                study.tell(trial, score(run))
    return study


def main() -> None:
    study = search(sys.argv[1], int(sys.argv[2]))
    print(f"{len(study.trials)} trials: {study.trials[0].value:.1f} at first, {study.best_value:.1f} at best with")
    for name, value in study.best_params.items():
        print(f"  {name}={value:.3g}" if isinstance(value, float) else f"  {name}={value}")


if __name__ == "__main__":
    main()
