# meta-llama/Llama-3.1-70B, TensorRT-LLM 1.3.0, h100: 1 prefill worker and 2 decode workers of 4 GPUs
# Not expressed: router kv: kv_cache_aware of trtllm-serve follows KV events too, by a cost of its maker; --emit dynamo has the router of the plan

# On prefill-1:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config prefill-trtllm.yaml

# On each of decode-1 to decode-2:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config decode-trtllm.yaml

# On the router:
trtllm-serve disaggregated \
  --config disaggregated.yaml
