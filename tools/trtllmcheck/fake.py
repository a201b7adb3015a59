"""Stand-in for tensorrt_llm in a dry run, with the events of E13 and the pauses of E12 (scheduler/trtllm/testdata)."""


class Settings:
    def __init__(self, **keys):
        self.__dict__.update(keys)


KvCacheConfig = SchedulerConfig = SamplingParams = Settings


class CapacitySchedulerPolicy:
    MAX_UTILIZATION = "MAX_UTILIZATION"


class LLM:
    def __init__(self, model, max_batch_size, kv_cache_config, **others):
        self.blocks = kv_cache_config.max_tokens // 32
        self.turns = [
            [("stored", 4)], [("removed", 1), ("stored", 3)], [("removed", 1), ("stored", 1)],
        ]

    def generate(self, prompts, params):
        assert all(p["prompt_token_ids"] for p in prompts)

    def get_kv_cache_events(self, timeout):
        names = {"stored": "blocks", "removed": "block_hashes"}
        return [{"data": {"type": kind, names[kind]: [{}] * n}} for kind, n in self.turns.pop(0)]

    def get_stats(self, timeout):
        return ['{"iter": 2, "inflightBatchingStats": {"numPausedRequests": 0}}', {"inflightBatchingStats": {"numPausedRequests": 1}}, {}]
