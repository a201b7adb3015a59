"""Speculative decoding: the number of accepted drafts, with the same draws as replay, and the time of drafting.

"speculative_config" of the settings has fields of vLLM (method, num_speculative_tokens, parallel_drafting, ...) and

    synthetic_acceptance_rates  by position: the probability that this draft and all earlier drafts are accepted (also in vLLM)
    acceptance_rate             the probability that a draft is accepted if all earlier drafts are; a number, or a list
                                [low, high], from which each request draws its rate
    acceptance_seed             seed of the draws
    draft_ms, draft_share       time of one draft for all requests: ms, plus a share of the pass time without drafts

A draw depends only on the seed, the request and the position of the token in the answer.
"""
MASK = (1 << 64) - 1


def draw(seed, request, place):
    """Return a pseudorandom number in [0, 1): the finalizer of SplitMix64 over seed, request and place."""
    x = (seed * 0x9E3779B97F4A7C15 + (request + 1) * 0xD6E8FEB86659FD93 + (place + 1) * 0xA0761D6478BD642F) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return float((x ^ x >> 31) >> 11) / float(1 << 53)


class Drafts:
    def __init__(self, given):
        self.count = given["num_speculative_tokens"] if given else 0
        if not given:
            return
        self.method, self.seed = given["method"], given.get("acceptance_seed", 0)
        self.ms, self.share = given.get("draft_ms", 0.0), given.get("draft_share", 0.0)
        rates = given.get("synthetic_acceptance_rates")
        if rates:
            self.range = None
            self.rates = [r / b if b > 0 else 0.0 for b, r in zip([1.0] + rates, rates)]
        else:
            rate = given["acceptance_rate"]
            self.range = rate if isinstance(rate, list) else (rate, rate)

    def accepted(self, request, given, drafts):
        """Return the number of accepted drafts of a request. given is the number of tokens of its answer so far."""
        for i in range(drafts):
            if self.range:
                low, high = self.range
                rate = low + (high - low) * draw(self.seed, request, -1)
            else:
                rate = self.rates[i]
            if not draw(self.seed, request, given + i) < rate:
                return i
        return drafts

    def pass_ms(self, ms, count):
        """Return the duration (ms) of a pass with count drafts after it. ms is the duration without drafts."""
        if not count:
            return ms
        return ms + float(count) * (self.ms + self.share * ms)
