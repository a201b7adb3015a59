package cli

import "strings"

// otherFlags lists flags of other tools. Each line has tools, flags, the flag of replay, and the difference. Without
// a difference, replay also accepts the flag of the other tool. Error messages and a page of the site use this list.
const otherFlags = `
dynamo.replay|num-workers|--workers|
dynamo.replay|num-prefill-workers|--prefill-workers|
dynamo.replay|num-decode-workers|--decode-workers|
dynamo.replay|router-mode|--router|
dynamo.replay|replay-concurrency|--max-in-flight|
dynamo.replay|replay-mode|--mode|
dynamo.replay|extra-engine-args|--engine-args|
dynamo.replay|arrival-speedup-ratio|--speedup|
dynamo.mocker|sglang-schedule-policy|--schedule-policy|
dynamo.mocker|sglang-max-prefill-tokens|--max-prefill-tokens|
dynamo.mocker|sglang-chunked-prefill-size|--chunked-prefill-size|
dynamo.mocker|sglang-clip-max-new-tokens|--clip-max-new-tokens|
dynamo.mocker|sglang-schedule-conservativeness|--schedule-conservativeness|
vllm serve|tensor-parallel-size|--tp|
vllm serve|pipeline-parallel-size|--pp|
vllm serve|data-parallel-size|--dp|
vllm serve|enable-expert-parallel|--ep 8|give the number of GPUs
vllm serve|enforce-eager|--graphs none|takes a name
vllm serve|no-enable-prefix-caching|--enable-prefix-caching=false|one flag for both
vllm serve|no-enable-chunked-prefill|--enable-chunked-prefill=false|one flag for both
vllm serve|kv-transfer-config|--kv-transfer pull|takes a name
vllm serve|kv-offloading-size|--kv-offload-gib|
vllm serve|kv-cache-memory-bytes|--num-gpu-blocks|in blocks of --block-size tokens
vllm serve|compilation-config,cudagraph-capture-sizes,max-cudagraph-capture-size|--graphs none|takes a name
vllm serve|num-gpu-blocks-override|--num-gpu-blocks|
vllm serve,sglang.launch_server|dtype|--quantization auto|the weights decide
vllm serve,sglang.launch_server|served-model-name,trust-remote-code,host,port,api-key,chat-template,tool-call-parser,reasoning-parser,load-format,download-dir,revision,nnodes,node-rank||no effect on a replay
vllm serve|enable-auto-tool-choice,uvicorn-log-level,disable-log-stats,enable-log-requests,distributed-executor-backend||no effect on a replay
sglang.launch_server|model-path|--model|
sglang.launch_server|tp-size|--tp|
sglang.launch_server|pp-size|--pp|
sglang.launch_server|dp-size|--dp|
sglang.launch_server|ep-size|--ep|
sglang.launch_server|mem-fraction-static|--gpu-memory-utilization|--num-gpu-blocks sets the cache
sglang.launch_server|max-total-tokens|--num-gpu-blocks|in blocks of --block-size tokens
sglang.launch_server|disable-radix-cache|--enable-prefix-caching=false|takes a value
sglang.launch_server|disable-cuda-graph|--graphs none|takes a name
sglang.launch_server|disable-overlap-schedule|--overlap=false|takes a value
sglang.launch_server|log-level,enable-metrics,dist-init-addr||no effect on a replay
vllm bench serve,sglang.bench_serving|num-prompts|--request-count|
vllm bench serve,sglang.bench_serving|random-input-len|--input-tokens|
vllm bench serve,sglang.bench_serving|random-output-len|--output-tokens|
vllm bench serve,sglang.bench_serving|max-concurrency|replay concurrency FILE --max-in-flight 8|a closed loop is a command
vllm bench serve|burstiness|--generate-arrivals gamma:cv=2|cv is 1/sqrt(burstiness)
vllm bench serve|save-result,result-dir|--out DIR|keeps everything about the run
vllm bench serve,sglang.bench_serving|random-range-ratio|--generate-input uniform:min=10,max=90|lengths follow a law
vllm bench serve,sglang.bench_serving,GuideLLM|backend||no effect on a replay
vllm bench serve,sglang.bench_serving|base-url,disable-tqdm||no effect on a replay
vllm bench serve|num-warmups,percentile-metrics,metric-percentiles||no effect on a replay
sglang.bench_serving|warmup-requests||no effect on a replay
vllm bench serve,sglang.bench_serving|dataset-path|replay trace FILE|the trace is an argument
vllm bench serve,sglang.bench_serving|dataset-name|--trace-format|formats are recognised
vllm bench serve,sglang.bench_serving,AIPerf|request-rate|--generate-rate 5 --generate-requests 1000|Poisson arrivals
vllm bench serve,sglang.bench_serving,AIPerf|goodput|--slo ttft=500ms,itl=30ms|times with units
AIPerf,GuideLLM,sglang.launch_server|random-seed|--seed|
AIPerf|isl|--input-tokens|
AIPerf|osl|--output-tokens|
AIPerf|synthetic-input-tokens-mean|--input-tokens|
AIPerf|output-tokens-mean|--output-tokens|
AIPerf|prompt-input-tokens-mean|--input-tokens|
AIPerf|prompt-output-tokens-mean|--output-tokens|
AIPerf|num-requests|--request-count|
AIPerf|isl-stddev|--generate-input normal:mean=1000,sd=200|lengths follow a law
AIPerf|osl-stddev|--generate-output normal:mean=200,sd=50|lengths follow a law
AIPerf|session-turns-mean,conversation-turn-mean|--turns-per-session 4|takes a whole number
AIPerf|replay-speedup|--speedup|
AIPerf|synthesis-speedup-ratio|--speedup|
AIPerf|arrival-pattern,request-rate-mode|--generate-arrivals gamma:cv=2|also poisson and constant
AIPerf|arrival-smoothness,vllm-burstiness|--generate-arrivals gamma:cv=2|cv is 1/sqrt(smoothness)
AIPerf|concurrency|replay concurrency FILE --max-in-flight 8|a closed loop is a command
AIPerf|input-file|replay trace FILE|the trace is an argument
AIPerf|custom-dataset-type|--trace-format|formats are recognised
AIPerf|fixed-schedule|replay trace FILE|traces are replayed at their times
AIPerf|benchmark-duration|--until 60s|times with units
AIPerf|output-artifact-dir,artifact-dir|--out DIR|keeps everything about the run
AIPerf|url,endpoint-type,streaming||no effect on a replay
GuideLLM|rate|--generate-rate 5 --generate-requests 1000|Poisson arrivals
GuideLLM|rate-type|replay trace or replay concurrency|the load is a command
GuideLLM|profile|replay trace or replay concurrency|the load is a command
GuideLLM|constraint|--request-count 1000 or --until 60s|times with units
GuideLLM|max-requests|--request-count|
GuideLLM|max-seconds|--until 60s|times with units
GuideLLM|data|replay trace FILE|the trace is an argument
GuideLLM|output-path,output-dir|--out DIR|keeps everything about the run
GuideLLM|target,processor||no effect on a replay
`

// OtherFlag is a flag of another tool.
type OtherFlag struct {
	Tool string // one or more tools, separated by commas
	Name string
	Here string // the flag of replay; "": the flag has no effect on a replay
	Note string // the difference; "": replay accepts Name as an alias of Here
}

// OtherFlags returns all flags of otherFlags.
func OtherFlags() []OtherFlag {
	var all []OtherFlag
	for line := range strings.Lines(strings.TrimSpace(otherFlags)) {
		p := strings.Split(strings.TrimSpace(line), "|")
		for name := range strings.SplitSeq(p[1], ",") {
			all = append(all, OtherFlag{p[0], name, p[2], p[3]})
		}
	}
	return all
}

// OtherNames returns the flags of replay that accept the name of another tool, by that name.
func OtherNames() map[string]string {
	own := make(map[string]string)
	for _, f := range OtherFlags() {
		if f.Note == "" && f.Here != "" {
			own[f.Name] = strings.TrimPrefix(f.Here, "--")
		}
	}
	return own
}

// adviceFor returns advice for a flag of another tool that replay does not have. adviceFor returns "" for unknown
// flags.
func adviceFor(name string) string {
	for _, f := range OtherFlags() {
		tool, _, _ := strings.Cut(f.Tool, ",")
		switch {
		case f.Name != name:
		case f.Here == "":
			return "is a flag of " + tool + " with " + f.Note + ": leave it out"
		case f.Note == "":
			return "is a flag of " + tool + ": its name here is " + f.Here
		default:
			return "is a flag of " + tool + ": use " + f.Here + " (" + f.Note + ")"
		}
	}
	return ""
}
