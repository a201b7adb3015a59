// Package results reads requests from the results of benchmark tools and from spans: vllm bench serve and
// sglang.bench_serving (bench.go), genai-perf (genai.go), GuideLLM and inference-perf (guidellm.go), AIPerf (aiperf.go),
// OpenTelemetry (otlp.go).
package results

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// benchRows reads the results of vllm bench serve and of sglang's bench_serving,
// where they hold a list of requests.
type benchRows struct {
	formats.Gathered
	runs int
	// found is the lists of the run that was asked for.
	inputs, outputs, starts, queues, failures [][]byte
	line                                      int
}

// OpenBench reads results of vllm bench serve and of sglang.bench_serving.
func OpenBench(s *formats.Stream) (formats.Reader, error) {
	b := &benchRows{Gathered: formats.Gathered{S: s}}
	s.Private, s.Measured = true, true
	err := b.EachObject(b.readRun)
	if err != nil || len(b.Bad) > 0 {
		return b, err
	}
	if _, err := chooseRun(s, b.runs); err != nil {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: err.Error()}
	}
	if b.starts == nil {
		s.PaceArrivals()
	}
	for i := range b.inputs {
		r := formats.Record{Line: b.line}
		keep, err := b.readRequest(i, &r)
		switch {
		case err != nil:
			b.Bad = append(b.Bad, scan.RowError(s.Name, b.line, err))
		case keep:
			b.All = append(b.All, r)
		default:
			s.Drop()
		}
	}
	return b, nil
}

func (b *benchRows) readRun(f *scan.Fields) error {
	b.runs++
	if b.runs != max(b.S.Options.Run, 1) {
		return nil
	}
	b.line = f.Line
	if !f.HasAll("input_lens", "output_lens") {
		return fmt.Errorf("summary only, no requests; want input_lens and output_lens")
	}
	for i, m := range f.Members {
		if slices.Contains([]string{"input_lens", "output_lens", "start_times", "queue_times", "errors"}, string(m.Key)) {
			f.Members[i].Value = bytes.Clone(m.Value) // the lists are read when the lines after this one have been
		}
	}
	b.inputs, b.outputs = f.ReadList("input_lens"), f.ReadList("output_lens")
	b.starts, b.queues, b.failures = f.ReadList("start_times"), f.ReadList("queue_times"), f.ReadList("errors")
	for _, l := range []struct {
		name string
		list [][]byte
	}{{"output_lens", b.outputs}, {"start_times", b.starts}, {"queue_times", b.queues}, {"errors", b.failures}} {
		if (l.list != nil || l.name == "output_lens") && len(l.list) != len(b.inputs) {
			f.Complain("input_lens has %d, %s has %d; want as many", len(b.inputs), l.name, len(l.list))
		}
	}
	return nil
}

// readRequest reads entry i of the lists. Failed requests are not kept.
func (b *benchRows) readRequest(i int, r *formats.Record) (keep bool, err error) {
	if b.failures != nil && !blankValue(b.failures[i]) {
		return false, nil
	}
	for _, l := range []struct {
		name string
		list [][]byte
		to   *int
	}{{"input_lens", b.inputs, &r.Input}, {"output_lens", b.outputs, &r.Output}} {
		n, ok := scan.WholeNumber(l.list[i])
		if !ok || n > scan.MaxTokens {
			return false, fmt.Errorf("%s[%d] is %s, want an integer from 0 to %d", l.name, i, excerpt.Cut(l.list[i]), scan.MaxTokens)
		}
		*l.to = int(n)
	}
	if b.starts == nil {
		b.S.ArrivePaced(r)
		return true, nil
	}
	at, ok := scan.DecimalStamp(b.starts[i], 9)
	if !ok || !scan.IsNumeric(b.starts[i]) {
		return false, fmt.Errorf("start_times[%d] is %s, want a finite number", i, excerpt.Cut(b.starts[i]))
	}
	if b.queues != nil {
		wait, ok := scan.DecimalStamp(b.queues[i], 9)
		if !ok || wait.MS < 0 {
			return false, fmt.Errorf("queue_times[%d] is %s, want a number >= 0", i, excerpt.Cut(b.queues[i]))
		}
		at = at.Minus(wait)
		at.Free = true
	}
	r.Arrives(at)
	return true, nil
}

// blankValue reports whether a value stands for no error.
func blankValue(v []byte) bool {
	switch string(bytes.TrimSpace(v)) {
	case "", `""`, "null", "false", "[]", "{}":
		return true
	}
	return false
}

// openRun returns the run that was asked for among those of a file.
func openRun(s *formats.Stream, f *scan.Fields, key string) (*scan.Fields, error) {
	list := f.ReadList(key)
	n, err := chooseRun(s, len(list))
	if err != nil {
		return nil, err
	}
	return f.OpenElement(key, n, list[n]), nil
}

// chooseRun returns the place of the run that was asked for among those of a
// file.
func chooseRun(s *formats.Stream, runs int) (int, error) {
	if want := max(s.Options.Run, 1); runs >= want && (s.Options.Run > 0 || runs == 1) {
		return want - 1, nil
	}
	return 0, fmt.Errorf("%d runs in the file, want --run=1 to %d", runs, runs)
}
