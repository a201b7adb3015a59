"""Configure an engine of a vLLM release from settings, with the release's own configuration code.

The configuration of a server is a tree of objects that contain models and devices. Stand-ins replace these objects here.
vLLM's own properties, methods and statements derive asynchronous scheduling, the model runner, the budget of a pass,
groups of KV blocks and the needs of a drafter. Settings that vLLM rejects raise Refused.
"""
import ast
import dataclasses
import functools
import inspect
import textwrap
import types
import typing

import vllm.config.vllm as config_module
import vllm.utils.torch_utils as torch_utils
from vllm.config import VllmConfig
from vllm.config.cache import CacheConfig
from vllm.config.scheduler import SchedulerConfig
from vllm.config import speculative

torch_utils.get_dtype_size = lambda dtype: 2  # bytes of an element; torch is a stand-in

import vllm.v1.core.kv_cache_utils as kv_cache_utils  # noqa: E402
import vllm.v1.kv_cache_interface as kv_cache_interface  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    ChunkedLocalAttentionSpec, FullAttentionSpec, KVCacheConfig, SlidingWindowSpec)

SpeculativeConfig = speculative.SpeculativeConfig
kv_cache_interface.get_dtype_size = torch_utils.get_dtype_size
config_module.HAS_TRITON = True  # as on a server with a GPU

# Settings of the oracle that are not fields of SchedulerConfig.
OWN = {"speculative_config", "num_gpu_blocks", "block_size", "enable_prefix_caching", "max_model_len", "idle_sleep_ms",
       "sliding_window", "attention_chunk_size", "layer_types", "window_groups", "full_groups", "v2_model_runner", "architecture",
       "num_g2_blocks", "kv_offload_connector", "kv_bytes_per_token", "bandwidth_g1_to_g2_gbps", "bandwidth_g2_to_g1_gbps",
       "prefill_workers", "decode_workers", "decode_num_gpu_blocks", "kv_transfer_bandwidth", "kv_transfer_latency_ms", "kv_transfer", "kv_role", "engine_id",
       "data_parallel_size"}


class Refused(Exception):
    """Raised if vLLM does not start with the settings."""


class Bag(types.SimpleNamespace):
    """Settings by name. A missing name raises AttributeError."""


def pick(function, **values):
    """Return the entries of values that are parameters of function."""
    names = parameters(function)
    return {k: v for k, v in values.items() if k in names}


@functools.cache
def parameters(function):
    """Return the parameters of a function or a class."""
    return inspect.signature(function).parameters


class Derived:
    """Stand-in with the properties and methods of a class of vLLM."""

    of = None

    def __getattr__(self, name):
        found = inspect.getattr_static(self.of, name, None)
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, property):
            return found.fget(self)
        if inspect.isfunction(found):
            return types.MethodType(found, self)
        raise AttributeError(f"vLLM asks {self.of.__name__} for {name}, which the oracle does not have")


class Config(Derived):
    """Stand-in for VllmConfig."""

    of = VllmConfig


class Speculation(Derived):
    """Stand-in for SpeculativeConfig."""

    of = SpeculativeConfig

    def __init__(self, given):
        for name, f in SpeculativeConfig.__dataclass_fields__.items():
            d = f.default
            setattr(self, name, None if "FieldInfo" in repr(type(d)) or d is dataclasses.MISSING else d)
        self.__dict__.update({k: v for k, v in given.items() if k in SpeculativeConfig.__dataclass_fields__})
        methods = typing.get_args(speculative.SpeculativeMethod)
        if self.method not in methods:
            raise Refused(f"method {self.method!r} is none of {', '.join(methods)}")
        self.draft_model_config = self.target_model_config = Bag(hf_config=Bag(architectures=[], model_type=""), architectures=[])


@functools.cache
def statements_that_set(function, attribute):
    """Return the source of the statements in function that set attribute (as in self.a.b) or that define names for them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body

    def stores(node):
        found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return found | {(a.asname or a.name).split(".")[0] for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}

    def loads(node):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

    def sets(node):
        return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and ast.unparse(n) == attribute for n in ast.walk(node))

    kept, wanted = [], set()
    for node in reversed(body):
        if sets(node) or stores(node) & wanted:
            kept.append(node)
            wanted |= loads(node)
    return ast.unparse(ast.Module(kept[::-1], []))


def decide_async(c):
    """Set c.scheduler_config.async_scheduling with the statements of the release."""
    source = statements_that_set(VllmConfig.__post_init__, "self.scheduler_config.async_scheduling")
    scope = {"self": c}
    exec(compile(source, config_module.__file__, "exec"), vars(config_module), scope)


def configure(s):
    """Return the engine configuration for the settings s, with the fields that the loop and the scheduler read."""
    fields = {k: v for k, v in s.items() if k not in OWN}
    unknown = sorted(set(fields) - set(SchedulerConfig.__dataclass_fields__))
    if unknown:
        raise Refused(f"this vLLM's scheduler has no {', '.join(unknown)}")
    try:
        return derive(s, fields)
    except (ValueError, AssertionError) as e:  # errors of pydantic are ValueErrors
        raise Refused(str(e).replace("\n", " ")) from e


PAGE = 4096  # bytes of a KV block for connectors; the time of transfers uses kv_bytes_per_token


def host_connector(s):
    """Return the configuration of the connector to host memory, or None without host memory."""
    if not s["num_g2_blocks"]:
        return None
    name = {"offloading": "OffloadingConnector", "simple": "SimpleCPUOffloadConnector"}[s["kv_offload_connector"]]
    return {"kv_connector": name, "kv_role": "kv_both", "kv_connector_extra_config": {"cpu_bytes_to_use": s["num_g2_blocks"] * PAGE}}


def transfer_config(s):
    """Return the KVTransferConfig for host memory, for a prefill or decode engine, or for both; None if s has neither."""
    from vllm.config.kv_transfer import KVTransferConfig
    host = host_connector(s)
    if "kv_role" not in s:
        return host and KVTransferConfig(engine_id="0", **host)
    pd = {"kv_connector": {"pull": "NixlConnector", "push": "NixlPushConnector"}[s["kv_transfer"]], "kv_role": s["kv_role"]}
    if host:
        pd = {"kv_connector": "MultiConnector", "kv_role": s["kv_role"], "kv_connector_extra_config": {"connectors": [pd, host]}}
    return KVTransferConfig(engine_id=s["engine_id"], **pd)


def derive(s, fields):
    c = Config()
    c.scheduler_config = SchedulerConfig(max_model_len=s["max_model_len"], is_encoder_decoder=False, **fields)
    c.scheduler_config.disable_hybrid_kv_cache_manager = False
    c.cache_config = CacheConfig(**pick(
        CacheConfig, block_size=s["block_size"], enable_prefix_caching=s["enable_prefix_caching"], gpu_memory_utilization=0.9))
    c.cache_config.num_gpu_blocks = s["num_gpu_blocks"]
    if hasattr(c.cache_config, "kv_cache_layout"):
        c.cache_config.kv_cache_layout = "NHD"
    c.model_config = Bag(
        max_model_len=s["max_model_len"], is_encoder_decoder=False, uses_mrope=False, runner_type="generate", is_moe=False,
        is_diffusion=False, supports_multimodal_inputs=False, multimodal_config=None, return_sampling_mask=False, is_hybrid=False,
        enable_return_routed_experts=False, is_multimodal_model=False, skip_tokenizer_init=True, architectures=[s["architecture"]],
        logits_processors=None, is_attention_free=False, quantization=None, enable_prompt_embeds=False, enforce_eager=False,
        has_inner_state=False, use_mla=False, get_total_num_kv_heads=lambda: 1, model="", dtype="torch.bfloat16", logprobs_mode="raw_logprobs")
    c.compilation_config = Bag(mode=None, pass_config=Bag(enable_sp=False))
    c.parallel_config = Bag(
        decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1,
        data_parallel_index=0, data_parallel_rank=0, distributed_executor_backend="mp", enable_dbo=False, all2all_backend="",
        use_ubatching=False, enable_elastic_ep=False, tensor_parallel_size=1, world_size=1, rank=0, nnodes_within_dp=1, data_parallel_rank_local=0)
    c.is_encoder_only = False
    c.kv_transfer_config = transfer_config(s)
    c.observability_config = Bag(
        kv_cache_metrics=False, kv_cache_metrics_sample=0.0, per_request_spec_decode_metrics=None, enable_mfu_metrics=False,
        enable_logging_iteration_details=False)
    c.ec_manager_config = Bag(get_encoder_cache_manager_obj=lambda: None)
    c.aux_output_config = Bag(enabled=False)
    c.lora_config = c.kv_events_config = c.ec_transfer_config = c.watermark_config = None
    c.diffusion_config = c.structured_outputs_config = c.reasoning_config = None
    c.attention_config = Bag(hisparse_config=None)
    c.speculative_config = Speculation(s["speculative_config"]) if s["speculative_config"] else None
    if s["v2_model_runner"] is not None:
        c.use_v2_model_runner = s["v2_model_runner"]
    elif not hasattr(VllmConfig, "use_v2_model_runner"):
        c.use_v2_model_runner = False
    decide_async(c)
    if hasattr(VllmConfig, "_set_max_num_scheduled_tokens"):
        c._set_max_num_scheduled_tokens()
    if hasattr(c.scheduler_config, "verify_max_model_len"):
        c.scheduler_config.verify_max_model_len(s["max_model_len"])
    return c


def spec(kind, s, **more):
    return kind(**pick(kind, block_size=s["block_size"], num_kv_heads=1, head_size=8, dtype=None, **more))


def layer_types(s):
    """Return the attention type of each layer, as named in config.json, in the order of the model."""
    if not s["sliding_window"] and not s["attention_chunk_size"]:
        return ["full_attention"]
    kind = "sliding_attention" if s["sliding_window"] else "chunked_attention"
    return s["layer_types"] or [kind] * s["window_groups"] + ["full_attention"] * s["full_groups"]


def kv_cache(c, s):
    """Return the KV cache configuration, with the groups that vLLM makes of the layers of a model."""
    kinds = {
        "full_attention": lambda: spec(FullAttentionSpec, s),
        "sliding_attention": lambda: spec(SlidingWindowSpec, s, sliding_window=s["sliding_window"]),
        "chunked_attention": lambda: spec(ChunkedLocalAttentionSpec, s, attention_chunk_size=s["attention_chunk_size"]),
    }
    layers = {f"model.layers.{i}.self_attn": kinds[t]() for i, t in enumerate(layer_types(s))}
    try:
        import vllm.v1.core.kv_cache_planning as planning
    except ImportError:
        planning = kv_cache_utils
    groups = planning.get_kv_cache_groups(c, layers)
    tensors = []
    if c.kv_transfer_config:
        tensors = [Bag(size=s["num_gpu_blocks"] * PAGE, shared_by=list(layers), layers=list(layers), layer_stride=0, offset=0, block_stride=0)]
    return KVCacheConfig(**pick(KVCacheConfig, num_blocks=s["num_gpu_blocks"], kv_cache_tensors=tensors, kv_cache_groups=groups))
