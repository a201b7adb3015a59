"""Settings of the order of the queue and of who is given up first, by SGLang's names, and what SGLang leaves to chance in
them, pinned so that a case comes out the same twice.
"""
DEFAULTS = {"enable_priority_scheduling": False, "schedule_low_priority_values_first": False,
            "priority_scheduling_preemption_threshold": 10, "disable_priority_preemption": False,
            "retraction_policy": "length", "prefill_decode_interval": 0, "prefill_decode_interval_min_bs": 0,
            "radix_eviction_policy": "lru", "radix_eviction_policy_config": None}


def settings(s):
    return {k: s.get(k, v) for k, v in DEFAULTS.items()}


def changed(s):
    """Those that are not the default."""
    return {k: v for k, v in settings(s).items() if v != DEFAULTS[k]}


class Listed(list):
    """A set that keeps the order in which it was filled; SGLang's goes by addresses in memory."""

    def add(self, x):
        if x not in self:
            self.append(x)


def pin_sets():
    """Running requests that one preemption takes out wait in the order in which they were chosen."""
    from sglang.srt.managers import schedule_policy

    schedule_policy.set = Listed
