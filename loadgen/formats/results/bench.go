// Package results reads requests from the results of benchmark tools and from spans: vllm bench serve and
// sglang.bench_serving (bench.go), genai-perf (genai.go), GuideLLM and inference-perf (guidellm.go), AIPerf (aiperf.go),
// OpenTelemetry (otlp.go).
package results

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// benchRows reads results of vllm bench serve and of sglang.bench_serving with a list of requests.
type benchRows struct {
	formats.Gathered
	runs int
	run  *entries.Bench // the run selected by --run
	line int            // line number of the run
}

// OpenBench opens results of vllm bench serve or of sglang.bench_serving.
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
	if b.run.Starts == nil {
		s.PaceArrivals()
	}
	for i := range b.run.Inputs {
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
		return fmt.Errorf("summary only, no requests; expected input_lens and output_lens")
	}
	// Only the required lists are kept, because they stay in memory until all lines are read.
	f.Members = slices.DeleteFunc(f.Members, func(m scan.Member) bool {
		return !slices.Contains([]string{"input_lens", "output_lens", "start_times", "queue_times", "errors"}, string(m.Key))
	})
	b.run = entries.ReadBench(f)
	for _, l := range []struct {
		name string
		list [][]byte
	}{{"output_lens", b.run.Outputs}, {"start_times", b.run.Starts}, {"queue_times", b.run.Queues}, {"errors", b.run.Failures}} {
		if (l.list != nil || l.name == "output_lens") && len(l.list) != len(b.run.Inputs) {
			f.Complain("input_lens has %d, %s has %d, must have as many", len(b.run.Inputs), l.name, len(l.list))
		}
	}
	return nil
}

// readRequest reads entry i of the lists. readRequest returns keep = false for failed requests.
func (b *benchRows) readRequest(i int, r *formats.Record) (keep bool, err error) {
	if b.run.Failed(i) {
		return false, nil
	}
	if r.Input, r.Output, err = b.run.Lengths(i); err != nil {
		return false, err
	}
	if b.run.Starts == nil {
		b.S.ArrivePaced(r)
		return true, nil
	}
	at, err := b.run.Start(i)
	r.Arrives(at)
	return true, err
}

// openRun returns the run selected by --run from the list with the given key.
func openRun(s *formats.Stream, f *scan.Fields, key string) (*scan.Fields, error) {
	list := f.ReadList(key)
	n, err := chooseRun(s, len(list))
	if err != nil {
		return nil, err
	}
	return f.OpenElement(key, n, list[n]), nil
}

// chooseRun returns the index of the run selected by --run.
func chooseRun(s *formats.Stream, runs int) (int, error) {
	if want := max(s.Options.Run, 1); runs >= want && (s.Options.Run > 0 || runs == 1) {
		return want - 1, nil
	}
	return 0, fmt.Errorf("%d runs in the file, use --run=1 to %d", runs, runs)
}
