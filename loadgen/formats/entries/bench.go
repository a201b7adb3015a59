// Package entries reads single requests with all their fields from benchmark results and traces. The sources are vllm
// bench serve and sglang.bench_serving (bench.go), AIPerf (aiperf.go), GuideLLM (guidellm.go) and spans (spans.go).
//
// Package results converts the requests to records of a trace. Package calibrate/measured reads their measured times.
package entries

import (
	"bytes"
	"fmt"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Bench is a result of a benchmark. Bench has lists of JSON values with an entry per request.
type Bench struct {
	Inputs, Outputs          [][]byte // tokens
	Starts, Queues, Failures [][]byte // start times and queue times in s, errors; nil if there is no list
	TTFTs, ITLs, Cached      [][]byte // s, lists of s, tokens
}

// ReadBench returns the lists of a result. The values remain valid after the next line is read.
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

// Lengths returns the input and output tokens of request i.
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

// Start returns the time at which request i was sent. If there are queue times, it is the start time minus the queue
// time.
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

// Numbers returns the numbers of a list. null becomes 0. name is the name of the list in error messages.
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

// IsBlank reports whether the value of an error field means that there was no error.
func IsBlank(v []byte) bool {
	switch string(bytes.TrimSpace(v)) {
	case "", `""`, "null", "false", "[]", "{}":
		return true
	}
	return false
}
