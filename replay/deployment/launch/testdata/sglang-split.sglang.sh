# meta-llama/Llama-3.1-70B, SGLang 0.5.23, h100: 1 prefill worker and 2 decode workers of 4 GPUs

# On prefill-1:
python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B \
  --tp-size 4 \
  --context-length 131072 \
  --max-running-requests 2048 \
  --chunked-prefill-size 8192 \
  --host 0.0.0.0 \
  --port 8000 \
  --disaggregation-mode prefill \
  --disaggregation-transfer-backend nixl \
  --disaggregation-bootstrap-port 8998

# On each of decode-1 to decode-2:
python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B \
  --tp-size 4 \
  --context-length 131072 \
  --max-running-requests 2048 \
  --chunked-prefill-size 8192 \
  --host 0.0.0.0 \
  --port 8000 \
  --disaggregation-mode decode \
  --disaggregation-transfer-backend nixl

# On the router (pip install sglang-router):
python3 -m sglang_router.launch_router \
  --host 0.0.0.0 \
  --port 8000 \
  --policy round_robin \
  --pd-disaggregation \
  --prefill http://prefill-1:8000 8998 \
  --decode http://decode-1:8000 \
  --decode http://decode-2:8000
