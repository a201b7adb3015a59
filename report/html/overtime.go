package html

import (
	"fmt"

	"github.com/replay-llm/replay/report/series"
)

// overTime holds the values of a run over time. Lists have one number per time bin.
type overTime struct {
	BinS       float64   `json:"bin_s"`
	Arrived    []float64 `json:"arrived"`  // requests/s
	Finished   []float64 `json:"finished"` // requests/s
	InFlight   []float64 `json:"in_flight"`
	Queue      []float64 `json:"queue"`
	Throughput []float64 `json:"throughput"` // tokens/s

	Faults []float64 `json:"faults,omitempty"` // s, when something went wrong

	WorkerBinS float64   `json:"worker_bin_s"`
	Batch      []float64 `json:"batch"` // requests in a pass, over busy workers
	Workers    []worker  `json:"workers"`
}

type worker struct {
	Name     string    `json:"name"`
	Requests int       `json:"requests"`
	Passes   int       `json:"passes"`
	Tokens   int       `json:"tokens"`
	Busy     float64   `json:"busy"`    // busy share of the time up to the last bin
	Prefill  float64   `json:"prefill"` // share of it
	Reused   float64   `json:"reused"`  // share of the prompt tokens
	KV       []float64 `json:"kv"`      // share of the KV blocks in use
	Reuse    []float64 `json:"reuse"`   // reused share of the prompt tokens so far
}

func newOverTime(f *series.File) *overTime {
	t := &overTime{BinS: f.BinMS / 1000, WorkerBinS: f.WorkerBinMS / 1000}
	n := max(len(f.Arrived), len(f.Finished), len(f.Output))
	flying, waiting := 0.0, 0.0
	for i := range n {
		flying += valueAt(f.Arrived, i) - valueAt(f.Finished, i)
		waiting += valueAt(f.Arrived, i) + valueAt(f.Lost, i) - valueAt(f.Admitted, i)
		t.Arrived = append(t.Arrived, roundDigits(valueAt(f.Arrived, i)/t.BinS))
		t.Finished = append(t.Finished, roundDigits(valueAt(f.Finished, i)/t.BinS))
		t.Throughput = append(t.Throughput, roundDigits(valueAt(f.Output, i)/t.BinS))
		t.InFlight = append(t.InFlight, roundDigits(flying))
		t.Queue = append(t.Queue, roundDigits(waiting))
	}
	bins := 0
	for i := range f.Workers {
		bins = max(bins, len(f.Workers[i].Busy))
	}
	for i := range bins {
		batch, busy := 0.0, 0.0
		for j := range f.Workers {
			batch += valueAt(f.Workers[j].Batch, i)
			busy += valueAt(f.Workers[j].Busy, i)
		}
		t.Batch = append(t.Batch, ratioOf(batch, busy))
	}
	for i := range f.Workers {
		t.Workers = append(t.Workers, newWorker(f, &f.Workers[i], bins))
	}
	return t
}

func newWorker(f *series.File, w *series.Worker, bins int) worker {
	out := worker{Name: fmt.Sprint(w.ID), Requests: w.Requests, Passes: w.Passes, Tokens: w.Tokens}
	if w.Kind != "" {
		out.Name = fmt.Sprintf("%d (%s)", w.ID, w.Kind)
	}
	if w.Decode {
		out.Name = fmt.Sprintf("decode %d", w.ID)
	}
	prompts, reused, busy, prefill := 0.0, 0.0, 0.0, 0.0
	for i := range bins {
		prompts += valueAt(w.Prompts, i)
		reused += valueAt(w.Reused, i)
		busy += valueAt(w.Busy, i)
		prefill += valueAt(w.Prefill, i)
		room := float64(w.Blocks) * f.WorkerBinMS
		out.KV = append(out.KV, ratioOf(valueAt(w.Held, i), room))
		out.Reuse = append(out.Reuse, ratioOf(reused, prompts))
	}
	all := float64(bins) * f.WorkerBinMS
	out.Busy, out.Prefill, out.Reused = ratioOf(busy, all), ratioOf(prefill, all), ratioOf(reused, prompts)
	return out
}

func ratioOf(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return roundDigits(a / b)
}

func valueAt(list []float64, i int) float64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}
