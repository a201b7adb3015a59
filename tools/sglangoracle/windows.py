"""The two KV-cache pools of a model with sliding-window layers: one pool for full layers, one for sliding-window layers.

The allocator and the tree are SGLang's. The pools have no memory, only the mapping from indices of the full pool to indices of
the sliding-window pool.
"""
from __future__ import annotations

import torch
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool
from sglang.srt.mem_cache.unified_cache.components import ComponentType


def swa_tokens(c):
    """Return the tokens of the sliding-window pool, as SGLang's HybridSWAPoolConfigurator computes them."""
    return int(c.pool * c.swa_full_tokens_ratio) // c.page_size * c.page_size


class Pool(BaseSWAKVPool):
    """Stand-in for the two pools, without memory."""

    def __init__(self):
        self.full_kv_pool = self.swa_kv_pool = None
        self.full_to_swa_index_mapping = None

    def register_mapping(self, full_to_swa_index_mapping):
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices):
        return self.full_to_swa_index_mapping[kv_indices]

    def _none(self, *a, **k):
        raise NotImplementedError

    get_state_buf_infos = get_key_buffer = get_value_buffer = get_kv_buffer = set_kv_buffer = _none


Pool.__abstractmethods__ = frozenset()


def allocator(c):
    a = SWATokenToKVPoolAllocator(c.pool, swa_tokens(c), c.page_size, torch.bfloat16, "cpu", Pool(), False)
    if c.page_size > 1:
        a.full_attn_allocator.use_triton_kernels = a.swa_attn_allocator.use_triton_kernels = False
    return a


def tree_params(p, c):
    """Set the parameters of a tree for sliding windows."""
    p.sliding_window_size = c.sliding_window_size
    p.tree_components = (ComponentType.FULL, ComponentType.SWA)


def set_scheduler(scheduler, c):
    """Set the attributes of a Scheduler that SGLang's cache builder sets for a model with sliding-window layers."""
    scheduler.is_hybrid_swa = True
    scheduler.sliding_window_size = c.sliding_window_size
    scheduler.full_tokens_per_layer, scheduler.swa_tokens_per_layer = c.pool, swa_tokens(c)
