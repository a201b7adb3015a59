# meta-llama/Llama-3.1-70B, TensorRT-LLM 1.3.0, h100: 2 prefill workers of 4 GPUs and 1 decode worker of 8 GPUs

# On each of prefill-1 to prefill-2:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config prefill-trtllm.yaml

# On decode-1:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config decode-trtllm.yaml

# On the router:
trtllm-serve disaggregated \
  --config disaggregated.yaml
