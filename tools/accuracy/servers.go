package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Engines of servers.
const (
	vllmEngine   = "vllm"
	sglangEngine = "sglang"
)

// server is a run of a measured server: its configuration and its measurements.
type server struct {
	name      string
	path      string                               // path below the folder of data
	format    func(path string) ([]request, error) // nil: turns in a closed loop
	engine    string
	hardware  string // hardware in the format of hardware.ParseFit
	operators string // settings of the measured operators, such as weights=nvfp4&engine=sglang; "": the GPU has no measured operators
	pods      int
	inFlight  int // concurrency of a closed loop; 0: open loop
	change    func(*hardware.Fit)
	kvTokens  int    // KV tokens that the server reported; 0: not reported
	overload  bool   // the queue grew, so the time to first token is mostly waiting time
	unbounded bool   // the bounds do not apply, because of experts on several GPUs or a server that was still starting
	summary   string // file below the folder of data with the mean and p99 of itl_ms; "": none
	halves    bool   // calibrate is fitted to the first half of the requests and judged by the second half

	requests []request           // requests in order of arrival
	turns    *calibrate.Measured // turns of a closed loop; nil: open loop
	itl      metric
}

// request is a measured request. Times are in ms.
type request struct {
	arrival       float64
	input, output int
	block         int      // tokens per hash
	hashes        []uint64 // block hashes of the prompt
	ttft, tpot    float64
	e2e           float64
}

// listServers returns the runs of measured servers.
func listServers() []*server {
	llama := server{format: readOwnTimes, engine: vllmEngine, pods: 1, halves: true}
	eager := server{
		format: readTable, engine: vllmEngine, hardware: "h100/qwen3-14b?graphs=none", operators: "engine=vllm-0.20", pods: 1, kvTokens: 281008,
	}
	pods := server{
		format: readTable, engine: vllmEngine, hardware: "h100/qwen3-14b", operators: "engine=vllm-0.17", pods: 4, kvTokens: 198208,
		change: func(f *hardware.Fit) { f.Utilization, f.BlockTokens = 0.75, 64 },
	}
	kimi := server{
		engine: sglangEngine, hardware: "gb300/kimi-k2.5?tp=4", operators: "weights=nvfp4&engine=sglang", pods: 1, unbounded: true,
		change: func(f *hardware.Fit) { f.SGLang, f.BlockTokens, f.MaxSeqs, f.MaxBatch = true, 256, 128, 8192 },
	}
	of := func(base server, name, path string, change func(*server)) *server {
		base.name, base.path = name, path
		if change != nil {
			change(&base)
		}
		return &base
	}
	closed := func(n int) func(*server) {
		return func(s *server) {
			s.inFlight, s.summary = n, fmt.Sprintf("measured/sglang-kimi-closed-loop/conc%d.json", n)
		}
	}
	queue := func(s *server) { s.overload = true }
	fresh := func(s *server) { s.unbounded = true }
	return []*server{
		of(llama, "RTX 4090, Llama-3.1-8B", "vllm-runs/RTX4090_Llama-3.1-8B", func(s *server) {
			s.hardware, s.kvTokens, s.overload = "rtx4090/llama-3.1-8b", 41408, true
		}),
		of(llama, "RTX PRO 6000, Llama-3.1-8B", "vllm-runs/RTXPRO6000_Llama-3.1-8B", func(s *server) {
			s.hardware, s.operators = "rtxpro6000/llama-3.1-8b", "engine=vllm-0.19"
			s.overload, s.change = true, func(f *hardware.Fit) { f.MaxSeqs = 128 }
		}),
		of(eager, "H100, Qwen3-14B, eager, 5/s", "measured/one-pod-qwen3-14b-eager/rate-5/trace_data.csv", nil),
		of(eager, "H100, Qwen3-14B, eager, 8/s", "measured/one-pod-qwen3-14b-eager/rate-8/trace_data.csv", nil),
		of(eager, "H100, Qwen3-14B, eager, 15/s", "measured/one-pod-qwen3-14b-eager/rate-15/trace_data.csv", queue),
		of(pods, "4 × H100, Qwen3-14B, 40/s", "measured/four-pods-qwen3-14b-prefix/w2-40/trace_data.csv.gz", nil),
		of(pods, "4 × H100, Qwen3-14B, 40/s, just started", "measured/four-pods-qwen3-14b-prefix/short-w2-40/trace_data.csv.gz", fresh),
		of(pods, "4 × H100, Qwen3-14B, 20/s, just started", "measured/four-pods-qwen3-14b-prefix/short-w1-20/trace_data.csv.gz", fresh),
		of(kimi, "4 × GB300, Kimi K2.5, SGLang, 4 at once", "measured/sglang-kimi-closed-loop/raw_conc4.jsonl.gz", closed(4)),
		of(kimi, "4 × GB300, Kimi K2.5, SGLang, 16 at once", "measured/sglang-kimi-closed-loop/raw_conc16.jsonl.gz", closed(16)),
		of(kimi, "4 × GB300, Kimi K2.5, SGLang, 64 at once", "measured/sglang-kimi-closed-loop/raw_conc64.jsonl.gz", closed(64)),
	}
}

// byOperators returns a source of pass times from measured operators.
func (s *server) byOperators() timing.Source {
	mark := "?"
	if strings.Contains(s.hardware, mark) {
		mark = "&"
	}
	return timing.ParseSource("silicon:" + s.hardware + mark + s.operators)
}

// fit returns the server's GPU, model and settings, and its memory budget.
func (s *server) fit() (hardware.Fit, hardware.Budget, error) {
	f, err := hardware.ParseFit(s.hardware)
	if err != nil {
		return f, hardware.Budget{}, err
	}
	f.MaxBatch = 2048
	if s.change != nil {
		s.change(&f)
	}
	budget, err := f.Check()
	return f, budget, err
}

// read returns the requests of the server, in order of arrival.
func (s *server) read(data string) ([]request, error) {
	format := s.format
	if s.inFlight > 0 {
		format = s.readTurns
	}
	all, err := format(filepath.Join(data, s.path))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.arrival, b.arrival) })
	for i := len(all) - 1; i >= 0; i-- {
		all[i].arrival -= all[0].arrival
	}
	if s.summary != "" {
		s.itl, err = readSummary(filepath.Join(data, s.summary))
	}
	return all, err
}

// metrics contains the times of a run.
type metrics struct{ ttft, tpot, itl, e2e metric }

// measure returns the measured times.
func (s *server) measure() metrics {
	of := func(least int, value func(*request) float64) (m metric) {
		var values []float64
		for i := range s.requests {
			if s.requests[i].output >= least {
				values = append(values, value(&s.requests[i]))
			}
		}
		for _, v := range values {
			m.mean += v / float64(len(values))
		}
		slices.Sort(values)
		rank := func(p float64) float64 { return values[int(math.Round(p*float64(len(values)-1)))] } // nearest rank, as in reports
		m.p50, m.p99 = rank(0.5), rank(0.99)
		return m
	}
	return metrics{
		ttft: of(1, func(r *request) float64 { return r.ttft }),
		tpot: of(2, func(r *request) float64 { return r.tpot }),
		itl:  s.itl,
		e2e:  of(1, func(r *request) float64 { return r.e2e }),
	}
}
