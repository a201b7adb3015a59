package vllm_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/ranks"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// oracleCase is a workload with the results of vLLM's own scheduler, as written by tools/vllmoracle.
type oracleCase struct {
	Name     string `json:"name"`
	Release  string `json:"vllm"`
	Profile  string `json:"profile"`
	Settings struct {
		Blocks         int      `json:"num_gpu_blocks"`
		BlockTokens    int      `json:"block_size"`
		MaxSeqs        int      `json:"max_num_seqs"`
		MaxBatched     int      `json:"max_num_batched_tokens"`
		Async          bool     `json:"async_scheduling"`
		MaxLength      int      `json:"max_model_len"`
		PrefixCaching  bool     `json:"enable_prefix_caching"`
		ChunkedPrefill bool     `json:"enable_chunked_prefill"`
		LongPrefill    int      `json:"long_prefill_token_threshold"`
		ReserveWhole   bool     `json:"scheduler_reserve_full_isl"`
		Watermark      float64  `json:"watermark"`
		Policy         string   `json:"policy"`
		PrefillEvery   int      `json:"prefill_schedule_interval"`
		Window         int      `json:"sliding_window"`
		Chunk          int      `json:"attention_chunk_size"`
		WindowGroups   int      `json:"window_groups"`
		FullGroups     int      `json:"full_groups"`
		LayerTypes     []string `json:"layer_types"`
		Ranks          int      `json:"data_parallel_size"`
		HostBlocks     int      `json:"num_g2_blocks"`
		HostConnector  string   `json:"kv_offload_connector"`
		TokenBytes     int      `json:"kv_bytes_per_token"`
		ToHost         float64  `json:"bandwidth_g1_to_g2_gbps"`
		ToGPU          float64  `json:"bandwidth_g2_to_g1_gbps"`
		Speculative    *struct {
			Method string          `json:"method"`
			Tokens int             `json:"num_speculative_tokens"`
			Rates  []float64       `json:"synthetic_acceptance_rates"`
			Rate   json.RawMessage `json:"acceptance_rate"`
			Seed   uint64          `json:"acceptance_seed"`
			Ms     float64         `json:"draft_ms"`
			Share  float64         `json:"draft_share"`
		} `json:"speculative_config"`
	} `json:"settings"`
	TraceTokens int            `json:"trace_block_size"`
	Timing      timing.Profile `json:"timing"`
	Rows        []struct {
		At     float64  `json:"timestamp"`
		Input  int      `json:"input_length"`
		Output int      `json:"output_length"`
		IDs    []uint64 `json:"hash_ids"`
		Rank   int32    `json:"priority"`
	} `json:"rows"`
	Requests []oracleRequest `json:"requests"`
}

// oracleRequest is the record of a request: admit_ms, first_token_ms, second_token_ms (nil without one), last_token_ms,
// reused_tokens and preemptions.
type oracleRequest [6]*float64

func (c *oracleCase) config(t *testing.T) vllm.Config {
	t.Helper()
	s := &c.Settings
	rules, err := releases.ParseProfile(c.Profile)
	if err != nil {
		t.Fatal(err)
	}
	rules.TwoInFlight, rules.ReserveWhole, rules.LongPrefillTokens, rules.Watermark = s.Async, s.ReserveWhole, s.LongPrefill, s.Watermark
	policy := vllm.FirstCome
	if s.Policy == vllm.ByPriority.String() {
		policy = vllm.ByPriority
	}
	clock := timing.Clock{Model: &c.Timing.Parameters, Speedup: 1, DecodeSpeedup: 1}
	if d := s.Speculative; d != nil {
		clock.DraftMs, clock.DraftShare = d.Ms, d.Share
	}
	windows := c.windows()
	cfg := vllm.Config{
		Settings: vllm.Settings{
			Windows: windows, Scheduling: policy, PrefillInterval: s.PrefillEvery,
			MaxSeqs: s.MaxSeqs, MaxBatchedTokens: s.MaxBatched, ChunkedPrefill: s.ChunkedPrefill, Rules: rules,
		},
		MaxLength: s.MaxLength, Blocks: s.Blocks, BlockTokens: s.BlockTokens,
		PrefixCaching: s.PrefixCaching,
		Clock:         clock, Speculation: c.speculation(),
		Offload:    blocks.Offload{Blocks: s.HostBlocks, BytesPerToken: s.TokenBytes, BatchBlocks: 32, ToHostGBPerSecond: s.ToHost, ToGPUGBPerSecond: s.ToGPU},
		RankedHost: releases.RanksHost(c.Profile), SimpleHost: s.HostConnector == "simple",
	}
	joined := !windows.Given() && !cfg.HashesAhead() && !cfg.Offload.Given() // trees are joined as in replays
	cfg.Tree = prompt.NewTree(c.TraceTokens, s.BlockTokens, prompt.Options{Joined: joined})
	return cfg
}

// windows returns the groups of the case's layers.
func (c *oracleCase) windows() vllm.Windows {
	s := &c.Settings
	w := vllm.Windows{Tokens: max(s.Window, s.Chunk), Chunked: s.Chunk > 0, Groups: s.WindowGroups, Full: s.FullGroups}
	if len(s.LayerTypes) > 0 {
		full := 0
		for _, t := range s.LayerTypes {
			if t == "full_attention" {
				full++
			}
		}
		w.Groups, w.Full = windows.GroupLayers(len(s.LayerTypes)-full, full)
		w.FullFirst = s.LayerTypes[0] == "full_attention"
	}
	return w
}

// speculation returns the speculative decoding of the case, or nil.
func (c *oracleCase) speculation() *vllm.Speculation {
	d := c.Settings.Speculative
	if d == nil {
		return nil
	}
	method := releases.FindMethod(d.Method)
	s := &vllm.Speculation{Method: method.Kind, Tokens: d.Tokens, Acceptance: scheduler.Acceptance{Seed: d.Seed}}
	var both [2]float64
	switch {
	case json.Unmarshal(d.Rate, &both) == nil:
		s.Low, s.High = both[0], both[1]
	case json.Unmarshal(d.Rate, &s.Low) == nil:
		s.High = s.Low
	}
	before := 1.0
	for _, x := range d.Rates {
		s.Rates = append(s.Rates, x/before)
		before = x
	}
	return s
}

// answer returns the length of an answer, limited by the longest sequence.
func (c *oracleCase) answer(input, output int) int {
	if longest := c.Settings.MaxLength; longest > 0 {
		return min(output, longest-input)
	}
	return output
}

// replay returns the results of the requests in this core.
func (c *oracleCase) replay(t *testing.T) []oracleRequest {
	t.Helper()
	cfg := c.config(t)
	core := build(t, cfg)
	if n := c.Settings.Ranks; n > 1 {
		var err error
		if core, err = ranks.New(cfg, n, releases.RanksOf(c.Profile)); err != nil {
			t.Fatal(err)
		}
	}
	prompts := cfg.Tree.AddAll(len(c.Rows), func(i int) (ids []uint64, tokens int) { return c.Rows[i].IDs, c.Rows[i].Input })
	did := make([]oracleRequest, len(c.Rows))
	pass := scheduler.Pass{Detail: &scheduler.Detail{}}
	for now, next := sim.Time(0), 0; next < len(c.Rows) || core.Load() > 0; {
		for ; next < len(c.Rows) && c.arrival(next) <= now; next++ {
			row := &c.Rows[next]
			core.Submit(&sim.Request{
				ID: sim.RequestID(next), InputTokens: row.Input, OutputTokens: c.answer(row.Input, row.Output), Prompt: prompts.At(next),
				Priority: row.Rank, Arrived: c.arrival(next),
			})
			did[next][4], did[next][5] = new(float64), new(float64)
		}
		if core.Load() == 0 {
			now = c.arrival(next)
			continue
		}
		until := sim.Time(math.Inf(1)) // vLLM does not have runs of passes
		if next < len(c.Rows) {
			until = c.arrival(next)
		}
		if err := core.Step(now, until, &pass); err != nil {
			t.Fatal(err)
		}
		now = pass.End
		noteFates(did, &pass)
	}
	return did
}

// arrival returns the arrival of request i; the first request arrives at 0.
func (c *oracleCase) arrival(i int) sim.Time { return sim.Time(c.Rows[i].At - c.Rows[0].At) }

// noteFates records the results of a pass for requests.
func noteFates(did []oracleRequest, p *scheduler.Pass) {
	set := func(id sim.RequestID, column int, at sim.Time) {
		if did[id][column] == nil {
			ms := float64(at)
			did[id][column] = &ms
		}
	}
	for _, a := range p.Admitted {
		set(a.Request, 0, p.Start)
		*did[a.Request][4] = max(*did[a.Request][4], float64(a.Reused))
	}
	for _, id := range p.Detail.Lost {
		*did[id][5]++
	}
	for _, id := range p.Second {
		set(id, 2, p.FirstEnd())
	}
	for _, m := range p.Marks {
		if m.First {
			set(m.Request, 1, p.End)
		}
		if m.Last {
			set(m.Request, 3, p.End)
		}
	}
}

var oracleCases = flag.String("cases", "../../testdata/vllm/cases.jsonl", "file of cases, as tools/vllmoracle/run --record leaves them")

// The results equal those of vLLM's data-parallel engines with their front end and coordinator, to the last bit.
func TestRanksEqualVLLM(t *testing.T) { compareCases(t, "../../testdata/vllm/ranks.jsonl", 20) }

// The results equal those of vLLM's own scheduler with its SimpleCPUOffloadConnector, to the last bit.
func TestSimpleEqualsVLLM(t *testing.T) { compareCases(t, "../../testdata/vllm/simple.jsonl", 20) }

// The results equal those of vLLM's own scheduler to the last bit, for small random workloads and for a case of each
// rule that was once wrong.
func TestEqualsVLLM(t *testing.T) { compareCases(t, *oracleCases, 36) }

// compareCases replays the cases of a file. The file must contain at least the given number of cases.
func compareCases(t *testing.T, path string, least int) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	columns := [...]string{"admit_ms", "first_token_ms", "second_token_ms", "last_token_ms", "reused_tokens", "preemptions"}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	n := 0
	for ; lines.Scan(); n++ {
		var c oracleCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Release+"/"+c.Name, func(t *testing.T) {
			for i, got := range c.replay(t) {
				for k, want := range c.Requests[i] {
					if (got[k] == nil) != (want == nil) || want != nil && *got[k] != *want {
						t.Fatalf("request %d: %s is %v, and %v in vLLM", i, columns[k], show(got[k]), show(want))
					}
				}
			}
		})
	}
	if err := lines.Err(); err != nil || n < least {
		t.Fatalf("%d cases, %v", n, err)
	}
}

func show(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}
