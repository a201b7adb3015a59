package offline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
)

// TestErrors checks the errors of replays that cannot end. The errors name the line of the trace and the numbers. The
// reference never ends on these replays.
func TestErrors(t *testing.T) {
	const small = `{"block_size":4,"num_gpu_blocks":4}`
	for _, test := range []struct {
		example
		want string
	}{
		{example{
			name: "larger than the pool", engine: small,
			trace: `
				{"timestamp":0,"input_length":4,"output_length":2,"hash_ids":[1]}
				{"timestamp":0,"input_length":14,"output_length":3,"hash_ids":[1,2,3,4]}
				{"timestamp":0,"input_length":16,"output_length":9,"hash_ids":[1,2,3,4]}`,
		}, "trace.jsonl:2: input_length 14, output_length 3: it needs 5 KV blocks of 4 tokens, must be at most num_gpu_blocks 4; " +
			"2 of 3 requests can never run, num_gpu_blocks 7 would admit them all"},
		{example{
			name: "larger than the decode pool", prefill: `{"block_size":4,"num_gpu_blocks":5,"worker_type":"prefill"}`,
			decode: `{"block_size":4,"num_gpu_blocks":4,"worker_type":"decode"}`,
			trace:  `{"timestamp":0,"input_length":16,"output_length":1,"hash_ids":[1,2,3,4]}`,
		}, "trace.jsonl:1: input_length 16, output_length 1: it needs 5 KV blocks of 4 tokens, must be at most num_gpu_blocks 4; " +
			"1 of 1 requests can never run, num_gpu_blocks 5 would admit them all"},
		{example{
			name: "no answer", engine: small,
			trace: `{"timestamp":0,"input_length":4,"output_length":0,"hash_ids":[1]}`,
		}, "trace.jsonl:1: input_length 4, output_length 0: an answer of 0 tokens never ends, expected output_length > 0; 1 of 1 requests can never run"},
		{example{
			name: "no answer and larger than the pool", engine: small,
			trace: `
				{"timestamp":0,"input_length":16,"output_length":9,"hash_ids":[1,2,3,4]}
				{"timestamp":0,"input_length":4,"output_length":0,"hash_ids":[1]}`,
		}, "trace.jsonl:1: input_length 16, output_length 9: it needs 7 KV blocks of 4 tokens, must be at most num_gpu_blocks 4; 2 of 2 requests can never run"},
		{example{
			name: "synthetic", engine: small, synthetic: &loadgen.Synthetic{Requests: 2, Input: 20, Output: 1, Turns: 1},
		}, "session_0 turn 0: input_length 20, output_length 1: it needs 6 KV blocks of 4 tokens, must be at most num_gpu_blocks 4; " +
			"2 of 2 requests can never run, num_gpu_blocks 6 would admit them all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.block = 4
			_, err := Run(context.Background(), test.config(t))
			var oversize *engines.OversizeError
			if !errors.As(err, &oversize) || err.Error() != test.want {
				t.Errorf("error %v\n want %s", err, test.want)
			}
		})
	}
}

// TestStalls checks that the error of a stall names the worker, the instant and the request, in every driver.
func TestStalls(t *testing.T) {
	const unchunked = `{"block_size":4,"enable_chunked_prefill":false,"max_num_batched_tokens":8}`
	const tooLong = `
		{"timestamp":0,"input_length":4,"output_length":2,"hash_ids":[1]}
		{"timestamp":0,"input_length":4,"output_length":2,"hash_ids":[2]}
		{"timestamp":100,"input_length":12,"output_length":2,"hash_ids":[3,4,5]}`
	// pingPong is an engine on which two requests that do not fit together preempt each other before their prompts
	// are done.
	const pingPong = `{"block_size":4,"num_gpu_blocks":4,"max_num_batched_tokens":2}`
	const pair = `
		{"timestamp":0,"input_length":13,"output_length":2,"hash_ids":[1,2,3,4]}
		{"timestamp":0,"input_length":8,"output_length":2,"hash_ids":[5,6]}`
	for _, test := range []struct {
		example
		at   string // beginning of the message
		says string // part of the reason
	}{
		{example{name: "unchunked, single", trace: tooLong, engine: unchunked},
			"stalled at 100 ms on worker 0: trace.jsonl:3: ", "max_num_batched_tokens"},
		{example{name: "unchunked, alone", trace: tooLong, engine: unchunked, workers: 2},
			"stalled at 100 ms on worker 0: trace.jsonl:3: ", "max_num_batched_tokens"},
		{example{name: "unchunked, router", trace: tooLong, engine: unchunked, workers: 2, router: "{}"},
			"stalled at 100 ms on worker 0: trace.jsonl:3: ", "max_num_batched_tokens"},
		{example{name: "ping-pong, single", trace: pair, engine: pingPong}, "stalled at ", "100000 passes"},
		{example{name: "ping-pong, router", trace: pair, engine: pingPong, router: "{}"}, "stalled at ", "100000 passes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.block = 4
			_, err := Run(context.Background(), test.config(t))
			var stall *harness.StalledError
			if !errors.As(err, &stall) {
				t.Fatalf("error %v, want a stall", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, test.at) || !strings.Contains(text, test.says) {
				t.Errorf("error %s\n want %s… with %q", text, test.at, test.says)
			}
			var core *scheduler.StallError
			if !errors.As(err, &core) {
				t.Errorf("error %v, want one that wraps the core's", err)
			}
		})
	}
}

// TestCancel checks that a replay stops long before its end when its context is done, and returns the reason, in
// every driver.
func TestCancel(t *testing.T) {
	for _, e := range []example{
		{name: "single"},
		{name: "alone", workers: 2},
		{name: "cluster", workers: 2, router: "{}"},
		{name: "stages", prefill: noLink, decode: decodeArgs},
	} {
		e.synthetic = &loadgen.Synthetic{Requests: 20_000, Input: 1000, Output: 200, Interval: 5, Turns: 1}
		t.Run(e.name, func(t *testing.T) {
			cfg := e.config(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			told := 0 // calls of Progress, at intervals of some steps
			cfg.Progress = func(finished int) {
				if told++; told == 3 {
					cancel(nil)
				}
			}
			_, err := Run(ctx, cfg)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
			if told != 3 {
				t.Errorf("progress was told %d times, want 3 and no more", told)
			}
		})
	}
}
