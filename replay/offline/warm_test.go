package offline

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// idleFrom is the start of the second half of a trace of drawHalves, long after the end of the first half.
const idleFrom = 10_000_000

// halves is a trace of two halves. The first half has ended when the second begins.
type halves struct {
	text  [2]string
	block int // tokens per hash id
	least int // KV blocks that the longest request needs
}

// drawHalves draws a trace. The number of requests of its first half is a multiple of every number of workers up to
// 4.
func drawHalves(r *rand.Rand, engineBlock int) halves {
	h := halves{block: engineBlock * (1 + r.IntN(3))}
	if r.IntN(4) == 0 {
		h.block = engineBlock + 1 + r.IntN(engineBlock) // engine blocks cross the block boundaries of the trace
	}
	for half := range h.text {
		var text strings.Builder
		now := float64(half * idleFrom)
		for range 24 * (1 + r.IntN(3)) {
			now += []float64{0, 1, 40, 300}[r.IntN(4)]
			n := 1 + r.IntN(8)
			ids := make([]string, n)
			id := 0
			for i := range ids {
				id = 4*id + 1 + r.IntN(2)
				ids[i] = fmt.Sprint(id)
			}
			input, output := max(1, n*h.block-r.IntN(h.block)), 1+r.IntN(40)
			h.least = max(h.least, (input+output)/engineBlock+2)
			fmt.Fprintf(&text, "{\"timestamp\":%v,\"input_length\":%d,\"output_length\":%d,\"hash_ids\":[%s]}\n", now, input, output, strings.Join(ids, ","))
		}
		h.text[half] = text.String()
	}
	return h
}

// warmCase is a cluster that replays the first half of a trace and keeps its caches.
type warmCase struct {
	name   string
	engine engineargs.Args
	router policy.Name
	count  int
	halves
}

func drawWarmCase(seed uint64) warmCase {
	r := rand.New(rand.NewPCG(seed, 18))
	a := engineargs.Default()
	a.BlockTokens = []int{4, 16}[r.IntN(2)]
	c := warmCase{count: 1 + r.IntN(4), halves: drawHalves(r, a.BlockTokens)}
	a.Blocks = c.least + r.IntN(3*c.least)
	a.MaxSeqs = 4 + r.IntN(30)
	a.Rules = []func() vllm.Rules{releases.Rules019, releases.Rules033}[r.IntN(2)]()
	if r.IntN(2) == 0 {
		a.Engine = engineargs.SGLang
		a.SGLang.Policy = []string{"fifo", "lpm"}[r.IntN(2)]
		a.SGLang.ChunkTokens = a.BlockTokens * (1 + r.IntN(40))
		a.SGLang.LogInterval = 1 + r.IntN(5)
	}
	c.router = []policy.Name{policy.RoundRobin, policy.KV}[r.IntN(2)]
	if c.router == policy.KV {
		c.count = max(c.count, 2)
	}
	c.engine = a
	c.name = fmt.Sprintf("%d/%v/%v/%d workers", seed, a.Engine, c.router, c.count)
	return c
}

// run replays a trace on the cluster of c. change, if not nil, changes the configuration.
func (c *warmCase) run(t *testing.T, text string, change func(*Config)) *harness.Result {
	t.Helper()
	cfg := Config{Config: harness.Config{
		Topology: engines.Topology{Pools: engines.OnePool(c.engine, c.count), Router: c.router, PreemptedApart: true},
		Workload: mooncake(t, text, c.block), Admission: loadgen.Admission{Speedup: 1},
	}}
	if change != nil {
		change(&cfg)
	}
	result, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// keepAtOnce returns the caches of a replay that starts with the caches of f, before its first request.
func (c *warmCase) keepAtOnce(t *testing.T, f *caches.File) *caches.File {
	t.Helper()
	cfg := Config{Config: harness.Config{
		Topology: engines.Topology{Pools: engines.OnePool(c.engine, c.count), Router: c.router},
		Workload: mooncake(t, c.text[1], c.block), Admission: loadgen.Admission{Speedup: 1}, Warm: f, Save: &harness.SaveCaches{},
	}}
	r, err := prepareRun(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	x, err := newCluster(r)
	if err != nil {
		t.Fatal(err)
	}
	x.saveWorkers()
	return x.saver.File()
}

// written writes a file of caches and reads it. written returns the bytes and the file that was read.
func written(t *testing.T, f *caches.File) ([]byte, *caches.File) {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	read, err := caches.Read(bytes.NewReader(b.Bytes()), "caches.jsonl")
	if err != nil {
		t.Fatalf("%v\n%s", err, b.Bytes())
	}
	return b.Bytes(), read
}

// TestWarmEqualsWhole replays two halves of a trace, the second half with the saved caches of the first. Every
// request of the second half has the same waiting time, worker and cached tokens as in one replay of both halves.
// Caches saved at an idle instant equal the caches saved at the end. A replay with almost no requests keeps its
// initial caches.
func TestWarmEqualsWhole(t *testing.T) {
	evicted, hits, copies := 0, 0, 0
	for seed := range uint64(200) {
		c := drawWarmCase(seed)
		first := c.run(t, c.text[0], func(cfg *Config) { cfg.Save = &harness.SaveCaches{} })
		text, file := written(t, first.Caches)
		whole := c.run(t, c.text[0]+c.text[1], func(cfg *Config) { cfg.Save = &harness.SaveCaches{At: idleFrom - 1000} })
		whole.Caches.At = 0
		if later, _ := written(t, whole.Caches); !bytes.Equal(text, later) {
			t.Fatalf("%s: kept at the end of the first half, and in the middle of the whole: %s", c.name, differentLines(string(text), string(later)))
		}
		second := c.run(t, c.text[1], func(cfg *Config) { cfg.Warm = file })
		all, rest := recordsOf(whole), recordsOf(second)
		for i := range rest {
			want, got := all[len(all)-len(rest)+i], rest[i]
			if d := differentRecords(want, got); d != "" {
				t.Fatalf("%s: request %d of the second half: %s\n%s", c.name, i, d, text)
			}
			hits += int(got.Reused)
		}
		if same, _ := written(t, c.keepAtOnce(t, file)); !bytes.Equal(text, same) {
			t.Fatalf("%s: begun with\n%s\nand kept at once\n%s", c.name, text, same)
		}
		for i := range file.Workers {
			for _, r := range file.Workers[i].Runs {
				copies += int(r.Copy)
			}
			if file.Workers[i].Cached() >= file.Workers[i].Blocks-1 {
				evicted++
			}
		}
	}
	if evicted == 0 || hits == 0 || copies == 0 {
		t.Errorf("%d full caches, %d tokens found and %d copies in all, want some of each", evicted, hits, copies)
	}
}

func recordsOf(r *harness.Result) (all []*collector.Record) {
	for _, x := range r.Collector.Requests() {
		all = append(all, x)
	}
	return all
}

// differentRecords describes the difference of two outcomes of a request, "" if they are equal. The clocks of the
// replays differ by whole milliseconds, so times may differ by rounding.
func differentRecords(a, b *collector.Record) string {
	differ := func(x, y float64) bool { return math.Abs(x-y) > 1e-5 }
	switch {
	case a.Reused != b.Reused:
		return fmt.Sprintf("%d tokens found, and %d", a.Reused, b.Reused)
	case a.Worker != b.Worker:
		return fmt.Sprintf("on worker %d, and on %d", a.Worker, b.Worker)
	case differ(float64(a.TTFT()), float64(b.TTFT())):
		return fmt.Sprintf("TTFT %v, and %v", a.TTFT(), b.TTFT())
	case differ(float64(a.E2E()), float64(b.E2E())):
		return fmt.Sprintf("E2E %v, and %v", a.E2E(), b.E2E())
	}
	return ""
}

// TestWarmBadFiles drops, moves, duplicates or cuts entries of a cache file. The file is rejected with its line, or
// it is a valid cache. With a valid cache, the replay runs to its end and all sums are consistent.
func TestWarmBadFiles(t *testing.T) {
	refused, taken := 0, 0
	for seed := range uint64(300) {
		c := drawWarmCase(seed)
		_, file := written(t, c.run(t, c.text[0], func(cfg *Config) { cfg.Save = &harness.SaveCaches{} }).Caches)
		r := rand.New(rand.NewPCG(seed, 19))
		w := &file.Workers[r.IntN(len(file.Workers))]
		if len(w.Runs) == 0 {
			continue
		}
		for range 1 + r.IntN(3) {
			i, k := r.IntN(len(w.Runs)), r.IntN(len(w.Runs))
			switch x := &w.Runs[i]; r.IntN(5) {
			case 0:
				w.Runs[i], w.Runs[k] = w.Runs[k], w.Runs[i]
			case 1:
				w.Runs = append(w.Runs, w.Runs[i])
			case 2:
				if len(w.Runs) > 1 {
					w.Runs = append(w.Runs[:i:i], w.Runs[i+1:]...)
				}
			case 3:
				x.From = int32(r.IntN(int(x.To)))
			case 4:
				if x.Prefix >= 0 && x.Own == 0 {
					x.Copy = int32(r.IntN(3))
				}
			}
		}
		cfg := Config{Config: harness.Config{
			Topology: engines.Topology{Pools: engines.OnePool(c.engine, c.count), Router: c.router},
			Workload: mooncake(t, c.text[1], c.block), Admission: loadgen.Admission{Speedup: 1}, Warm: file,
		}}
		switch _, err := Run(context.Background(), cfg); {
		case err == nil:
			taken++
		case strings.HasPrefix(err.Error(), "caches.jsonl:"):
			refused++
		default:
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d files refused and %d taken, want some of each", refused, taken)
	}
}

// TestWarmRefuses checks that files for different prompts or engines are rejected.
func TestWarmRefuses(t *testing.T) {
	c := drawWarmCase(1)
	_, file := written(t, c.run(t, c.text[0], func(cfg *Config) { cfg.Save = &harness.SaveCaches{} }).Caches)
	for want, change := range map[string]func(*Config){
		"caches.jsonl:1: block_size is":       func(cfg *Config) { cfg.Pools[0].Engine.BlockTokens *= 2 },
		"caches.jsonl:1: trace_block_size is": func(cfg *Config) { w := *cfg.Workload; w.TraceBlock++; cfg.Workload = &w },
		"engines have no prefix cache":        func(cfg *Config) { cfg.Pools[0].Engine.PrefixCaching = false },
		"the reference's caches begin empty":  func(cfg *Config) { cfg.Compat = true },
		"prompts of a synthetic workload":     func(cfg *Config) { w := *cfg.Workload; w.Synthetic = true; cfg.Workload = &w },
		"trace.jsonl: its hash ids are numbered": func(cfg *Config) {
			w := *cfg.Workload
			w.Renumbered = true
			cfg.Workload = &w
		},
		"events of KV caches begin with empty caches": func(cfg *Config) { cfg.KVEvents = true },
		`pool is "decode", and the replay has one`: func(cfg *Config) {
			f := *file
			f.Workers = append([]caches.Worker(nil), f.Workers...)
			f.Workers[0].Pool = "decode"
			cfg.Warm = &f
		},
	} {
		cfg := Config{Config: harness.Config{
			Topology: engines.Topology{Pools: engines.OnePool(c.engine, c.count), Router: c.router},
			Workload: mooncake(t, c.text[1], c.block), Admission: loadgen.Admission{Speedup: 1}, Warm: file,
		}}
		change(&cfg)
		if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
