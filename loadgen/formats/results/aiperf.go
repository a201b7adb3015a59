package results

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// exportRows reads the records that AIPerf writes of a run.
type exportRows struct {
	formats.LineRows
	ends formats.LastEnds
}

// OpenExport reads AIPerf's profile export.
func OpenExport(s *formats.Stream) (formats.Reader, error) {
	s.Private, s.Measured = true, true
	s.Chained = s.Options.Sessions != "flat"
	x := &exportRows{ends: make(formats.LastEnds)}
	x.S, x.Read = s, x.readRow
	return x, nil
}

func (x *exportRows) readRow(f *scan.Fields) error {
	meta := f.OpenSub("metadata")
	phase := meta.ReadText("benchmark_phase")
	cancelled := string(meta.Value("was_cancelled")) == "true"
	failed := !entries.IsBlank(f.Value("error"))
	at := meta.NeedStamp("request_start_ns", 0)
	end, ends := meta.ReadStamp("request_end_ns", 0)
	session := meta.ReadName("x_correlation_id")
	if f.Err != nil {
		return f.Err
	}
	if failed || cancelled || phase != nil && string(phase) != "profiling" {
		x.S.Drop()
		return nil
	}
	r := x.Add(f.Line)
	r.Arrives(at)
	metrics := f.OpenSub("metrics")
	r.Input = needMetric(metrics, "input_sequence_length")
	r.Output = needMetric(metrics, "output_sequence_length")
	if session == nil || f.Err != nil {
		return f.Err
	}
	r.Group = session
	if !x.S.Chained {
		return nil
	}
	r.Session = session
	if !ends {
		end = at
	}
	x.ends.Chain(r, session, end)
	return nil
}

// needMetric is the value of a metric, a number or an object with a value.
func needMetric(f *scan.Fields, name string) int {
	if v := f.Value(name); v != nil && v[0] == '{' {
		m := f.OpenSub(name)
		n, ok := m.ReadCount("value")
		if !ok {
			m.Missing("value", "a number of tokens")
		}
		return n
	}
	return f.NeedCount(name)
}

// OpenInputs reads the bodies that AIPerf is to send.
func OpenInputs(s *formats.Stream) (formats.Reader, error) {
	g := &formats.Gathered{S: s}
	t, err := texts.New(s)
	if err != nil {
		return nil, err
	}
	s.Chained = s.Options.Sessions != "flat"
	s.PaceArrivals()
	return g, g.EachObject(func(f *scan.Fields) error {
		for _, d := range f.Elements("data") {
			if err := readSession(g, d, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// readSession reads the payloads of one session.
func readSession(g *formats.Gathered, d *scan.Fields, t *texts.Counter) error {
	session := d.ReadName("session_id")
	for k, v := range d.ReadList("payloads") {
		r := formats.Record{Line: d.Line, Session: session, Group: session}
		body := d.OpenElement("payloads", k, v)
		t.ReadOutput(body, &r, "max_completion_tokens", "max_tokens", "min_tokens")
		if k == 0 {
			g.S.ArrivePaced(&r)
		}
		if err := t.FillPrompt(&r, t.CollectPrompt(v)); err != nil {
			return fmt.Errorf("%s%w", body.Place, err)
		}
		g.All = append(g.All, r.Clone())
	}
	return d.Err
}
