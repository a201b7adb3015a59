package formats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/loadgen"
)

func isExport(o *object) bool {
	var meta object
	meta.reparseText(o.find("metadata"))
	return meta.has("request_start_ns") && o.has("metrics")
}

// exportRows reads the records that AIPerf writes of a run.
type exportRows struct {
	s    *Stream
	f    fields
	ends lastEnds
}

func openExport(s *Stream) (rows, error) {
	s.Private, s.Measured, s.shape.zero = true, true, "skip"
	s.Chained = s.o.Sessions != "flat"
	return &exportRows{s: s, ends: make(lastEnds)}, nil
}

func (x *exportRows) next(r *Record) error {
	for {
		keep := false
		err := x.f.readRow(x.s.lines, r, func(r *Record) { keep = x.readRow(r) })
		if err != nil || keep {
			return err
		}
		x.s.dropped++
	}
}

func (x *exportRows) readRow(r *Record) (keep bool) {
	f := &x.f
	meta := f.openSub("metadata")
	phase := meta.readText("benchmark_phase")
	cancelled := string(meta.value("was_cancelled")) == "true"
	failed := !blankValue(f.value("error"))
	r.arrives(meta.needStamp("request_start_ns", 0))
	end, ends := meta.readStamp("request_end_ns", 0)
	session := meta.readName("x_correlation_id")
	f.adoptError(&meta)
	if f.err != nil || failed || cancelled || phase != nil && string(phase) != "profiling" {
		return false
	}
	metrics := f.openSub("metrics")
	r.Input = metrics.needMetric("input_sequence_length")
	r.Output = metrics.needMetric("output_sequence_length")
	f.adoptError(&metrics)
	if session == nil || f.err != nil {
		return true
	}
	r.Group = session
	if !x.s.Chained {
		return true
	}
	r.Session = session
	if !ends {
		end = r.when
	}
	x.ends.chain(r, session, end)
	return true
}

// needMetric is the value of a metric, a number or an object with a value.
func (f *fields) needMetric(name string) int {
	if v := f.value(name); v != nil && v[0] == '{' {
		m := f.openSub(name)
		n, ok := m.readCount("value")
		if !ok {
			m.missing("value", "a number of tokens")
		}
		f.adoptError(&m)
		return n
	}
	return f.needCount(name)
}

func isInputs(o *object) bool {
	parts, ok := splitList(o.find("data"), nil)
	if !ok || len(parts) == 0 {
		return false
	}
	var first object
	first.reparseText(parts[0])
	return first.hasAll("session_id", "payloads")
}

// openInputs reads the bodies that AIPerf is to send.
func openInputs(s *Stream) (rows, error) {
	g := &gathered{s: s}
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Chained = s.o.Sessions != "flat"
	s.paceArrivals()
	return g, g.eachObject(func(value []byte, line int) error {
		var f fields
		f.openMember(value, "")
		for i, v := range f.readList("data") {
			var d fields
			d.openMember(v, elementName("data", i))
			if err := g.readSession(&d, t, line); err != nil {
				return err
			}
		}
		return f.err
	})
}

// readSession reads the payloads of one session.
func (g *gathered) readSession(d *fields, t *texts, line int) error {
	session := d.readName("session_id")
	for k, v := range d.readList("payloads") {
		var r Record
		r.reset(line)
		var body fields
		body.openMember(v, d.place+elementName("payloads", k))
		body.outputOf(g.s, &r, "max_completion_tokens", "max_tokens", "min_tokens")
		r.Session, r.Group = session, session
		if k == 0 {
			g.s.arrivePaced(&r)
		}
		if err := t.fillPrompt(&r, t.collectPrompt(v)); err != nil {
			return fmt.Errorf("%s%w", body.place, err)
		}
		d.adoptError(&body)
		g.keepRecord(&r)
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
	g.keepRecord(r)
}

// inOrder sorts what was gathered by arrival.
func (g *gathered) inOrder() {
	slices.SortStableFunc(g.all, func(a, b Record) int { return cmp.Compare(a.when.since(b.when), 0) })
}

func (g *gathered) refuseSummary() error {
	return &loadgen.SyntaxError{Name: g.s.Name, Msg: "summary only, no requests; want a file with one entry per request"}
}
