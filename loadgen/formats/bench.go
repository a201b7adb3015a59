package formats

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

// benchRows reads the results of vllm bench serve and of sglang's bench_serving,
// where they hold a list of requests.
type benchRows struct {
	gathered
	runs int
	// found is the lists of the run that was asked for.
	inputs, outputs, starts, queues, failures [][]byte
	line                                      int
}

func openBench(s *Stream) (rows, error) {
	b := &benchRows{gathered: gathered{s: s}}
	s.Private, s.Measured = true, true
	err := b.eachObject(b.readRun)
	if err != nil || len(b.bad) > 0 {
		return b, err
	}
	if _, err := s.chooseRun(b.runs); err != nil {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: err.Error()}
	}
	if b.starts == nil {
		s.paceArrivals()
	}
	for i := range b.inputs {
		r := Record{Line: b.line}
		keep, err := b.readRequest(i, &r)
		switch {
		case err != nil:
			b.bad = append(b.bad, rowAt(s.Name, b.line, err))
		case keep:
			b.all = append(b.all, r)
		default:
			s.dropped++
		}
	}
	return b, nil
}

func (b *benchRows) readRun(f *fields) error {
	b.runs++
	if b.runs != max(b.s.o.Run, 1) {
		return nil
	}
	b.line = f.line
	if !f.hasAll("input_lens", "output_lens") {
		return fmt.Errorf("summary only, no requests; want input_lens and output_lens")
	}
	for i, m := range f.members {
		if slices.Contains([]string{"input_lens", "output_lens", "start_times", "queue_times", "errors"}, string(m.key)) {
			f.members[i].value = bytes.Clone(m.value) // the lists are read when the lines after this one have been
		}
	}
	b.inputs, b.outputs = f.readList("input_lens"), f.readList("output_lens")
	b.starts, b.queues, b.failures = f.readList("start_times"), f.readList("queue_times"), f.readList("errors")
	for _, l := range []struct {
		name string
		list [][]byte
	}{{"output_lens", b.outputs}, {"start_times", b.starts}, {"queue_times", b.queues}, {"errors", b.failures}} {
		if (l.list != nil || l.name == "output_lens") && len(l.list) != len(b.inputs) {
			f.complain("input_lens has %d, %s has %d; want as many", len(b.inputs), l.name, len(l.list))
		}
	}
	return nil
}

// readRequest reads entry i of the lists. Failed requests are not kept.
func (b *benchRows) readRequest(i int, r *Record) (keep bool, err error) {
	if b.failures != nil && !blankValue(b.failures[i]) {
		return false, nil
	}
	for _, l := range []struct {
		name string
		list [][]byte
		to   *int
	}{{"input_lens", b.inputs, &r.Input}, {"output_lens", b.outputs, &r.Output}} {
		n, ok := wholeNumber(l.list[i])
		if !ok || n > maxTokens {
			return false, fmt.Errorf("%s[%d] is %s, want an integer from 0 to %d", l.name, i, excerpt.Cut(l.list[i]), maxTokens)
		}
		*l.to = int(n)
	}
	if b.starts == nil {
		b.s.arrivePaced(r)
		return true, nil
	}
	at, ok := decimalStamp(b.starts[i], 9)
	if !ok || !isNumeric(b.starts[i]) {
		return false, fmt.Errorf("start_times[%d] is %s, want a finite number", i, excerpt.Cut(b.starts[i]))
	}
	if b.queues != nil {
		wait, ok := decimalStamp(b.queues[i], 9)
		if !ok || wait.ms < 0 {
			return false, fmt.Errorf("queue_times[%d] is %s, want a number >= 0", i, excerpt.Cut(b.queues[i]))
		}
		at = at.minus(wait)
		at.free = true
	}
	r.arrives(at)
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

func (s stamp) minus(o stamp) stamp {
	o.ns, o.ms = -o.ns, -o.ms
	return s.plus(o)
}
