package formats

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen"
)

func isExport(o *object) bool {
	return o.has("metrics") && o.openInner("metadata").has("request_start_ns")
}

// exportRows reads the records that AIPerf writes of a run.
type exportRows struct {
	lineRows
	ends lastEnds
}

func openExport(s *Stream) (rows, error) {
	s.Private, s.Measured = true, true
	s.Chained = s.o.Sessions != "flat"
	x := &exportRows{ends: make(lastEnds)}
	x.s, x.read = s, x.readRow
	return x, nil
}

func (x *exportRows) readRow(f *fields) error {
	meta := f.openSub("metadata")
	phase := meta.readText("benchmark_phase")
	cancelled := string(meta.value("was_cancelled")) == "true"
	failed := !blankValue(f.value("error"))
	at := meta.needStamp("request_start_ns", 0)
	end, ends := meta.readStamp("request_end_ns", 0)
	session := meta.readName("x_correlation_id")
	if f.err != nil {
		return f.err
	}
	if failed || cancelled || phase != nil && string(phase) != "profiling" {
		x.s.dropped++
		return nil
	}
	r := x.add(f.line)
	r.arrives(at)
	metrics := f.openSub("metrics")
	r.Input = metrics.needMetric("input_sequence_length")
	r.Output = metrics.needMetric("output_sequence_length")
	if session == nil || f.err != nil {
		return f.err
	}
	r.Group = session
	if !x.s.Chained {
		return nil
	}
	r.Session = session
	if !ends {
		end = at
	}
	x.ends.chain(r, session, end)
	return nil
}

// needMetric is the value of a metric, a number or an object with a value.
func (f *fields) needMetric(name string) int {
	if v := f.value(name); v != nil && v[0] == '{' {
		m := f.openSub(name)
		n, ok := m.readCount("value")
		if !ok {
			m.missing("value", "a number of tokens")
		}
		return n
	}
	return f.needCount(name)
}

func isInputs(o *object) bool { return o.openFirst("data").hasAll("session_id", "payloads") }

// openInputs reads the bodies that AIPerf is to send.
func openInputs(s *Stream) (rows, error) {
	g := &gathered{s: s}
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Chained = s.o.Sessions != "flat"
	s.paceArrivals()
	return g, g.eachObject(func(f *fields) error {
		for _, d := range f.elements("data") {
			if err := g.readSession(d, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// readSession reads the payloads of one session.
func (g *gathered) readSession(d *fields, t *texts) error {
	session := d.readName("session_id")
	for k, v := range d.readList("payloads") {
		r := Record{Line: d.line, Session: session, Group: session}
		body := d.openElement("payloads", k, v)
		body.outputOf(g.s, &r, "max_completion_tokens", "max_tokens", "min_tokens")
		if k == 0 {
			g.s.arrivePaced(&r)
		}
		if err := t.fillPrompt(&r, t.collectPrompt(v)); err != nil {
			return fmt.Errorf("%s%w", body.place, err)
		}
		g.all = append(g.all, r.Clone())
	}
	return d.err
}

// lastEnds is when the last turn of each session ended.
type lastEnds map[string]stamp

// chain makes r, which ended at an instant that the file says, wait for the turn
// of its session before.
func (e lastEnds) chain(r *Record, session []byte, end stamp) {
	if before, ok := e[string(session)]; ok {
		r.HasDelay, r.Delay = true, max(0, r.when.since(before))
	}
	e[string(session)] = end
}

// linkAfter keeps r, waiting for the turn of its session before.
func (g *gathered) linkAfter(r *Record, ends lastEnds) {
	if r.Session != nil {
		ends.chain(r, r.Session, r.ended)
		if !g.s.Chained {
			r.Session, r.HasDelay, r.Delay = nil, false, 0
		}
	}
	g.all = append(g.all, r.Clone())
}

func (g *gathered) refuseSummary() error {
	return &loadgen.SyntaxError{Name: g.s.Name, Msg: "summary only, no requests; want a file with one entry per request"}
}
