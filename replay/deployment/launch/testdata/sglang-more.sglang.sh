# meta-llama/Llama-3.1-70B, SGLang 0.5.23, h100: 1 worker of 4 GPUs

# On worker-1:
python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B \
  --tp-size 4 \
  --context-length 131072 \
  --max-running-requests 2048 \
  --chunked-prefill-size 8192 \
  --decode-log-interval 10 \
  --num-reserved-decode-tokens 256 \
  --load-balance-method total_tokens \
  --swa-full-tokens-ratio 0.5 \
  --disable-hybrid-swa-memory \
  --speculative-algorithm EAGLE \
  --speculative-num-steps 5 \
  --speculative-eagle-topk 4 \
  --speculative-num-draft-tokens 8 \
  --schedule-low-priority-values-first \
  --priority-scheduling-preemption-threshold 5 \
  --disable-priority-preemption \
  --prefill-decode-interval 2 \
  --prefill-decode-interval-min-bs 4 \
  --retraction-policy priority \
  --enable-hierarchical-cache \
  --hicache-ratio 3 \
  --hicache-size 20 \
  --hicache-write-policy write_through_selective \
  --hicache-storage-backend file \
  --hicache-storage-prefetch-policy best_effort \
  --host 0.0.0.0 \
  --port 8000
