# meta-llama/Llama-3.1-70B, vLLM 0.33.0, h100: 1 worker of 4 GPUs

# On worker-1:
vllm serve meta-llama/Llama-3.1-70B \
  --tensor-parallel-size 4 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 1024 \
  --host 0.0.0.0 \
  --port 8000
