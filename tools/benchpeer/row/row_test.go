package row_test

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

func TestRowsAreTellable(t *testing.T) {
	rows := row.All()
	names, titles := map[string]bool{}, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if names[r.Name()] || titles[r.Title] {
			t.Errorf("%q (%s) is there twice", r.Title, r.Name())
		}
		names[r.Name()], titles[r.Title] = true, true
		if r.Bounds.Command <= 0 || r.Bounds.Memory <= 0 {
			t.Errorf("%s: bounds %+v, want one for the command and one for memory", r.Title, r.Bounds)
		}
	}
	if len(rows) != 12 {
		t.Errorf("%d rows, want 12", len(rows))
	}
}

func TestArgs(t *testing.T) {
	for _, c := range []struct{ title, name, args string }{
		{
			"conversation, 8 workers, KV router, block 64",
			"engine=vllm/topology=agg/router=kv/block=64/workers=8/load=conversation",
			`TRACE --trace-block-size 512 --router-mode kv_router --num-workers 8 --extra-engine-args {"block_size":64}`,
		},
		{
			"conversation, 4 prefill + 4 decode, KV router, block 512",
			"engine=vllm/topology=disagg/router=kv/block=512/workers=4+4/load=conversation",
			`TRACE --trace-block-size 512 --router-mode kv_router --num-prefill-workers 4 --prefill-engine-args {"block_size":512,"worker_type":"prefill"}` +
				` --num-decode-workers 4 --decode-engine-args {"block_size":512,"worker_type":"decode"}`,
		},
		{
			"synthetic 4,096 of 1,024/2,048, 128 in flight, SGLang",
			"engine=sglang/topology=agg/router=rr/block=64/workers=1/load=synthetic-1024-2048/requests=4096/inflight=128",
			`--input-tokens 1024 --output-tokens 2048 --request-count 4096 --replay-concurrency 128 --num-workers 1` +
				` --extra-engine-args {"block_size":64,"engine_type":"sglang","num_gpu_blocks":200000}`,
		},
	} {
		found := false
		for _, r := range row.All() {
			if r.Title != c.title {
				continue
			}
			found = true
			if name := r.Name(); name != c.name {
				t.Errorf("%s: name %s, want %s", c.title, name, c.name)
			}
			if args := strings.Join(r.Args("TRACE"), " "); args != c.args {
				t.Errorf("%s: arguments\n%s, want\n%s", c.title, args, c.args)
			}
		}
		if !found {
			t.Errorf("no row %q", c.title)
		}
	}
}

// Quick reduces closed loops only, since the conversation trace is short already.
func TestQuick(t *testing.T) {
	for _, r := range row.All() {
		q := r.Quick()
		switch {
		case r.InFlight > 0 && (q.Requests != r.Requests/16 || q.Title == r.Title):
			t.Errorf("%s: %d requests become %q with %d", r.Title, r.Requests, q.Title, q.Requests)
		case r.InFlight == 0 && q != r:
			t.Errorf("%s: becomes %+v", r.Title, q)
		}
	}
}
