package offline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// FuzzReplay makes a small replay from any bytes. The replay ends in a valid report or in an error, and equals the
// replay of the literal model.
func FuzzReplay(f *testing.F) {
	f.Add([]byte("\x00"))
	f.Add([]byte("\x31\x07\x22\x01\x41\x02\x13\x24\x35\x46\x57\x68\x79"))
	f.Add([]byte("\xff\xfe\x80\x7f\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, text, ok := fromBytes(data)
		if !ok {
			return
		}
		a, b := x.run(byLiteral), x.run(byCluster)
		if errors.Is(a.err, errDeadEnd) && b.err != nil {
			return
		}
		if d := difference(a, b); d != "" {
			t.Fatalf("the literal model and the cluster: %s\n%s", d, x.show(text))
		}
		if d := x.broken(b); d != "" {
			t.Fatalf("%s\n%s", d, x.show(text))
		}
		_, err := Run(context.Background(), x.cfg)
		if x.model == nil && (err == nil) != (b.err == nil) {
			t.Fatalf("errors %v and %v\n%s", err, b.err, x.show(text))
		}
	})
}

// entropy yields small numbers, one per byte, then 0.
type entropy []byte

func (b *entropy) take(n int) int {
	if len(*b) == 0 {
		return 0
	}
	v := int((*b)[0])
	*b = (*b)[1:]
	return v % n
}

// fromBytes returns the small replay that bytes describe: the cluster, then four bytes per request.
func fromBytes(data []byte) (*trial, string, bool) {
	b := entropy(data)
	one, two := b.pool(), b.pool()
	x := &trial{cfg: Config{Config: harness.Config{
		Topology: engines.Topology{Compat: true, Pools: []engines.Pool{one}}, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
	}}}
	if b.take(3) == 1 {
		one.Engine.Role, two.Engine.Role = scheduler.Prefill, scheduler.Decode
		one.Engine.KVBytesPerToken, one.Engine.TransferGBPerSecond = 250_000, float64(b.take(3))
		x.cfg.Pools = engines.TwoPools(one, two)
	}
	if limit := b.take(6); limit > 0 {
		x.cfg.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: limit}
	}
	if b.take(2) == 1 {
		config, threshold := router.DefaultConfig(), float64(b.take(4))/2
		config.QueueThreshold = &threshold
		x.cfg.Router = policy.KV.Configure(&config)
	}
	if b.take(4) > 0 {
		x.model = coarse{prefill: []float64{float64(b.take(3)), 2}, decode: []float64{1, float64(b.take(3))}, free: b.take(4)}
	}
	var text strings.Builder
	at := 0
	for range 12 {
		if len(b) == 0 {
			break
		}
		at += b.take(4)
		blocks := 1 + b.take(3)
		ids := strings.Join([]string{"1", fmt.Sprint(2 + b.take(2)), "4"}[:blocks], ",")
		fmt.Fprintf(&text, `{"timestamp":%d,"session_id":"%d","input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			at, b.take(5), 4*blocks-b.take(4), b.take(12), ids)
	}
	w, err := registry.Read(strings.NewReader(text.String()), "trace.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: 4, Compat: true})
	x.cfg.Workload = w
	return x, text.String(), err == nil
}

func (b *entropy) pool() engines.Pool {
	a := engineargs.Default()
	a.BlockTokens = 4
	a.Blocks = 2 + b.take(12)
	a.MaxSeqs = b.take(4)
	a.MaxBatchedTokens = b.take(20)
	flags := b.take(16)
	a.PrefixCaching = flags&1 == 0
	a.ChunkedPrefill = flags&2 == 0
	a.Preemption = [...]vllm.Preemption{vllm.LIFO, vllm.FIFO}[flags>>2&1]
	return engines.Pool{Engine: a, Count: 1 + b.take(3)}
}
