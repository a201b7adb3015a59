package results

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// genaiRows reads the profile export of genai-perf.
type genaiRows struct {
	formats.Gathered
	t      *texts.Counter
	pieces bool // the warning on counted pieces was printed
}

// OpenGenAI opens a profile export of genai-perf.
func OpenGenAI(s *formats.Stream) (formats.Reader, error) {
	t, err := texts.New(s)
	if err != nil {
		return nil, err
	}
	g := &genaiRows{Gathered: formats.Gathered{S: s}, t: t}
	s.Measured, s.Chained = true, s.Options.Sessions != "flat"
	ends := make(formats.LastEnds)
	return g, g.EachObject(func(f *scan.Fields) error {
		run, err := openRun(s, f, "experiments")
		if err != nil {
			return err
		}
		for _, q := range run.Elements("requests") {
			r := formats.Record{Line: f.Line}
			if err := g.readRequest(q, &r); err != nil {
				return fmt.Errorf("%s%w", q.Place, err)
			}
			if q.Err != nil {
				return q.Err
			}
			g.LinkAfter(&r, ends)
		}
		return nil
	})
}

func (g *genaiRows) readRequest(f *scan.Fields, r *formats.Record) error {
	r.Arrives(f.NeedStamp("timestamp", 0))
	stamps := f.ReadList("response_timestamps")
	r.Ended = r.When
	if n := len(stamps); n > 0 {
		if end, ok := scan.DecimalStamp(stamps[n-1], 0); ok {
			r.Ended = end
		}
	}
	if id := f.ReadName("sequence_id"); id != nil && string(id) != "0" {
		r.Session, r.Group = id, id
	}
	switch answer := g.t.CountAnswer(f.ReadList("response_outputs")); {
	case g.S.Options.OutputTokens > 0:
		r.Output = g.S.Options.OutputTokens
	case answer > 0:
		r.Output = answer
	default:
		r.Output = len(stamps)
		g.countPieces()
	}
	inputs := f.OpenSub("request_inputs")
	return g.t.FillPrompt(r, g.t.CollectPrompt(listPayloads(&inputs.Object)...))
}

// countPieces warns once that the length of answers is their number of pieces.
func (g *genaiRows) countPieces() {
	if !g.pieces {
		g.pieces = true
		g.S.Warn(g.S.Name + ": answers are counted by the pieces they came in, not by tokens; use --tokenizer or --output-len")
	}
}

// listPayloads returns the values of the members. A string that contains a JSON object is replaced by the object.
func listPayloads(f *scan.Object) [][]byte {
	var all [][]byte
	for _, m := range f.Members {
		v := m.Value
		if len(v) > 0 && v[0] == '"' {
			if inner := scan.UnquoteString(v); len(inner) > 0 && inner[0] == '{' && scan.BeginsValue(inner) {
				v = inner
			}
		}
		all = append(all, v)
	}
	return all
}
