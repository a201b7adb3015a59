# meta-llama/Llama-3.1-70B, TensorRT-LLM 1.3.0, h100: 1 worker of 4 GPUs

# On worker-1:
trtllm-serve serve meta-llama/Llama-3.1-70B \
  --host 0.0.0.0 \
  --port 8000 \
  --config trtllm.yaml
