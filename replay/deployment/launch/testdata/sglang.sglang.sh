# meta-llama/Llama-3.1-70B, SGLang 0.5.23, h100: 2 workers of 4 GPUs

# On each of worker-1 to worker-2:
python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B \
  --tp-size 4 \
  --context-length 131072 \
  --max-running-requests 2048 \
  --chunked-prefill-size 8192 \
  --host 0.0.0.0 \
  --port 8000

# On the router (pip install sglang-router):
python3 -m sglang_router.launch_router \
  --host 0.0.0.0 \
  --port 8000 \
  --policy power_of_two \
  --worker-urls http://worker-1:8000 http://worker-2:8000
