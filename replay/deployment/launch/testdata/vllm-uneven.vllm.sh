# meta-llama/Llama-3.1-70B, vLLM 0.33.0, h100: 2 prefill workers of 4 GPUs and 1 decode worker of 2 GPUs

# On each of prefill-1 to prefill-2:
VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i) VLLM_NIXL_SIDE_CHANNEL_PORT=5600 \
vllm serve meta-llama/Llama-3.1-70B \
  --tensor-parallel-size 4 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 1024 \
  --host 0.0.0.0 \
  --port 8000 \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'

# On decode-1:
VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i) VLLM_NIXL_SIDE_CHANNEL_PORT=5600 \
vllm serve meta-llama/Llama-3.1-70B \
  --tensor-parallel-size 2 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 1024 \
  --host 0.0.0.0 \
  --port 8000 \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'

# On the router (pip install vllm-router==0.1.17):
vllm-router \
  --host 0.0.0.0 \
  --port 8000 \
  --policy round_robin \
  --vllm-pd-disaggregation \
  --prefill http://prefill-1:8000 \
  --prefill http://prefill-2:8000 \
  --decode http://decode-1:8000
