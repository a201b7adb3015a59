# meta-llama/Llama-3.1-70B, TensorRT-LLM 1.3.0, h100: 2 workers of 4 GPUs
# Not expressed: router kv: trtllm-serve has no router for servers that do prefill and decode: a load balancer in front of them has it

# On each of worker-1 to worker-2:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config trtllm.yaml
