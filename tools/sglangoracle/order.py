"""SGLang's settings for the order of the queue, of retraction and of eviction.

pin_sets fixes an order that is random in SGLang, so that a case has the same results in every run.
"""
DEFAULTS = {"enable_priority_scheduling": False, "schedule_low_priority_values_first": False,
            "priority_scheduling_preemption_threshold": 10, "disable_priority_preemption": False,
            "retraction_policy": "length", "prefill_decode_interval": 0, "prefill_decode_interval_min_bs": 0,
            "radix_eviction_policy": "lru", "radix_eviction_policy_config": None}


def settings(s):
    return {k: s.get(k, v) for k, v in DEFAULTS.items()}


def changed(s):
    """Return the settings with a value that is not the default."""
    return {k: v for k, v in settings(s).items() if v != DEFAULTS[k]}


class Listed(list):
    """A set that iterates in insertion order. SGLang's set iterates in the order of memory addresses."""

    def add(self, x):
        if x not in self:
            self.append(x)


def pin_sets():
    """Make SGLang queue the requests of one preemption in the order of their selection."""
    from sglang.srt.managers import schedule_policy

    schedule_policy.set = Listed
