// Package entries reads single requests from results of vllm bench serve and sglang.bench_serving (bench.go), of AIPerf
// (aiperf.go) and GuideLLM (guidellm.go) and from spans (spans.go), with all that these hold of a request.
//
// Package results makes records of a trace of them, and calibrate/measured requests with measured times.
package entries

import (
	"bytes"
	"fmt"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Bench is a result: lists with an entry per request, which are JSON values.
type Bench struct {
	Inputs, Outputs          [][]byte // tokens
	Starts, Queues, Failures [][]byte // instants and waits in s, errors; nil if there is no list
	TTFTs, ITLs, Cached      [][]byte // s, lists of s, tokens
}

// ReadBench reads the lists of a result, which stay when the line is gone.
func ReadBench(f *scan.Fields) *Bench {
	for i, m := range f.Members {
		if len(m.Value) > 0 && m.Value[0] == '[' {
			f.Members[i].Value = bytes.Clone(m.Value)
		}
	}
	return &Bench{
		Inputs: f.ReadList("input_lens"), Outputs: f.ReadList("output_lens"),
		Starts: f.ReadList("start_times"), Queues: f.ReadList("queue_times"), Failures: f.ReadList("errors"),
		TTFTs: f.ReadList("ttfts"), ITLs: f.ReadList("itls"), Cached: f.ReadList("cached_tokens"),
	}
}

// Failed reports whether request i failed.
func (b *Bench) Failed(i int) bool { return i < len(b.Failures) && !IsBlank(b.Failures[i]) }

// Lengths returns the tokens of request i.
func (b *Bench) Lengths(i int) (input, output int, err error) {
	if input, err = countOf("input_lens", i, b.Inputs[i]); err == nil {
		output, err = countOf("output_lens", i, b.Outputs[i])
	}
	return input, output, err
}

func countOf(name string, i int, value []byte) (int, error) {
	n, ok := scan.WholeNumber(value)
	if !ok || n > scan.MaxTokens {
		return 0, fmt.Errorf("%s[%d] is %s, must be an integer from 0 to %d", name, i, excerpt.Cut(value), scan.MaxTokens)
	}
	return int(n), nil
}

// Start returns the instant at which request i was sent: its wait in a queue ends where the list of starts has it.
func (b *Bench) Start(i int) (scan.Stamp, error) {
	at, ok := scan.DecimalStamp(b.Starts[i], 9)
	if !ok || !scan.IsNumeric(b.Starts[i]) {
		return at, fmt.Errorf("start_times[%d] is %s, must be a finite number", i, excerpt.Cut(b.Starts[i]))
	}
	if b.Queues != nil {
		wait, ok := scan.DecimalStamp(b.Queues[i], 9)
		if !ok || wait.MS < 0 {
			return at, fmt.Errorf("queue_times[%d] is %s, must be a number >= 0", i, excerpt.Cut(b.Queues[i]))
		}
		at = at.Minus(wait)
		at.Free = true
	}
	return at, nil
}

// Numbers returns the numbers of a list of f, 0 for null. The list has the given name in complaints.
func Numbers(f *scan.Fields, name string, list [][]byte) []float64 {
	all := make([]float64, len(list))
	for i, v := range list {
		var ok bool
		if all[i], ok = scan.ParseNumber(v); !ok && string(v) != "null" {
			f.Mismatch(fmt.Sprintf("%s[%d]", name, i), v, "a finite number")
		}
	}
	return all
}

// IsBlank reports whether a value stands for no error.
func IsBlank(v []byte) bool {
	switch string(bytes.TrimSpace(v)) {
	case "", `""`, "null", "false", "[]", "{}":
		return true
	}
	return false
}
