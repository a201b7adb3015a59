# meta-llama/Llama-3.1-70B, vLLM 0.33.0, h100: 3 workers of 4 GPUs
# Not expressed: router kv: kv_aware of vllm-router follows KV events too, by a cost of its maker; --emit dynamo has the router of the plan

# On each of worker-1 to worker-3:
vllm serve meta-llama/Llama-3.1-70B \
  --tensor-parallel-size 4 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 1024 \
  --host 0.0.0.0 \
  --port 8000 \
  --kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}'

# On the router (pip install vllm-router==0.1.17):
vllm-router \
  --host 0.0.0.0 \
  --port 8000 \
  --policy kv_aware \
  --worker-urls \
    http://worker-1:8000 \
    http://worker-2:8000 \
    http://worker-3:8000 \
  --kv-event-block-size 16 \
  --kv-event-model meta-llama/Llama-3.1-70B \
  --kv-event-source http://worker-1:8000=tcp://worker-1:5557 \
  --kv-event-source http://worker-2:8000=tcp://worker-2:5557 \
  --kv-event-source http://worker-3:8000=tcp://worker-3:5557
