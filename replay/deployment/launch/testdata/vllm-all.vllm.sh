# meta-llama/Llama-3.1-70B, vLLM 0.33.0, h100: 2 workers of 4 GPUs

# On each of worker-1 to worker-2:
vllm serve meta-llama/Llama-3.1-70B \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 2 \
  --data-parallel-size 2 \
  --enable-expert-parallel \
  --quantization fp8 \
  --kv-cache-dtype fp8 \
  --compilation-config '{"cudagraph_mode":"PIECEWISE"}' \
  --num-gpu-blocks-override 5000 \
  --speculative-config '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}' \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --block-size 32 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 1024 \
  --no-enable-prefix-caching \
  --enable-chunked-prefill \
  --scheduling-policy priority \
  --host 0.0.0.0 \
  --port 8000

# On the router (pip install vllm-router==0.1.17):
vllm-router \
  --host 0.0.0.0 \
  --port 8000 \
  --policy round_robin \
  --worker-urls http://worker-1:8000 http://worker-2:8000
