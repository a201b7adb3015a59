package results

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// exportRows reads the profile export of AIPerf.
type exportRows struct {
	formats.LineRows
	ends formats.LastEnds
}

// OpenExport opens a profile export of AIPerf.
func OpenExport(s *formats.Stream) (formats.Reader, error) {
	s.Private, s.Measured = true, true
	s.Chained = s.Options.Sessions != "flat"
	x := &exportRows{ends: make(formats.LastEnds)}
	x.S, x.Read = s, x.readRow
	return x, nil
}

func (x *exportRows) readRow(f *scan.Fields) error {
	e := entries.ReadExport(f)
	at := e.Metadata.NeedStamp("request_start_ns", 0)
	end, ends := e.Metadata.ReadStamp("request_end_ns", 0)
	session := e.Metadata.ReadName("x_correlation_id")
	if f.Err != nil {
		return f.Err
	}
	if e.Failed || !e.Profiled {
		x.S.Drop()
		return nil
	}
	r := x.Add(f.Line)
	r.Arrives(at)
	r.Input, r.Output = needCount(e.Metric("input_sequence_length")), needCount(e.Metric("output_sequence_length"))
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

// needCount returns a required number of tokens.
func needCount(f *scan.Fields, key string) int { return f.NeedCount(key) }

// OpenInputs opens an input file of AIPerf with request bodies.
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

// readSession reads the payloads of a session.
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
