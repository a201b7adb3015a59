# meta-llama/Llama-3.1-70B, SGLang 0.5.23, h100: 1 worker of 4 GPUs

# On worker-1:
python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B \
  --tp-size 8 \
  --pp-size 2 \
  --dp-size 4 \
  --enable-dp-attention \
  --ep-size 8 \
  --quantization fp8 \
  --kv-cache-dtype fp8_e4m3 \
  --disable-cuda-graph \
  --max-total-tokens 64000 \
  --mem-fraction-static 0.85 \
  --context-length 131072 \
  --page-size 64 \
  --disable-radix-cache \
  --max-running-requests 2048 \
  --chunked-prefill-size 8192 \
  --max-prefill-tokens 4096 \
  --prefill-max-requests 8 \
  --schedule-policy lpm \
  --schedule-conservativeness 0.8 \
  --enable-mixed-chunk \
  --disable-overlap-schedule \
  --enable-priority-scheduling \
  --radix-eviction-policy lfu \
  --host 0.0.0.0 \
  --port 8000
