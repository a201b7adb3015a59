package results

import (
	"sort"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// IsGuide reports whether a record is a GuideLLM report.
func IsGuide(o *scan.Object) bool {
	if _, ok := scan.SplitList(o.Find("benchmarks"), nil); !ok {
		return false
	}
	return o.OpenInner("metadata").Has("guidellm_version") || o.OpenFirst("benchmarks").OpenInner("requests").Has("successful")
}

// OpenGuide opens a GuideLLM report.
func OpenGuide(s *formats.Stream) (formats.Reader, error) {
	g := &formats.Gathered{S: s}
	s.Private, s.Measured = true, true
	s.Chained = s.Options.Sessions != "flat"
	joins := 0
	var all []formats.Record
	err := g.EachObject(func(f *scan.Fields) error {
		run, err := openRun(s, f, "benchmarks")
		if err != nil {
			return err
		}
		requests := run.OpenSub("requests")
		if !requests.Has("successful") {
			return refuseSummary(s)
		}
		for _, q := range requests.Elements("successful") {
			r := formats.Record{Line: f.Line}
			joins += readGuideRow(q, &r)
			if q.Err != nil {
				return q.Err
			}
			all = append(all, r.Clone())
		}
		return nil
	})
	if err == nil {
		err = s.RefuseDAG(0, joins)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].When.Compare(all[j].When) < 0 })
	ends := make(formats.LastEnds)
	for i := range all {
		g.LinkAfter(&all[i], ends)
	}
	return g, err
}

// readGuideRow reads a request. joins is its number of parents minus 1.
func readGuideRow(f *scan.Fields, r *formats.Record) (joins int) {
	g := entries.ReadGuide(f)
	r.Input, r.Output = needCount(g.Input()), needCount(g.Output())
	if id := g.Info.ReadName("conversation_id"); id != nil {
		r.Session, r.Group = id, id
	}
	joins = max(0, len(g.Info.ReadList("parent_node_ids"))-1)
	times, key := g.Start()
	r.Arrives(times.NeedStamp(key, 9))
	var ok bool
	times, key = g.Instant("end_time", "request_end")
	if r.Ended, ok = times.ReadStamp(key, 9); !ok {
		r.Ended = r.When
	}
	return joins
}

// OpenLifecycle opens a per-request report of inference-perf.
func OpenLifecycle(s *formats.Stream) (formats.Reader, error) {
	g := &formats.Gathered{S: s}
	t, err := texts.New(s)
	if err != nil {
		return nil, err
	}
	s.Measured = true
	return g, g.EachObject(func(f *scan.Fields) error {
		r := formats.Record{Line: f.Line}
		r.Arrives(f.NeedStamp("start_time", 9))
		if !entries.IsBlank(f.Value("error")) {
			s.Drop()
			return nil
		}
		about := f.OpenSub("info")
		metrics := about.OpenSub("response_metrics")
		metrics.Parent = nil // errors in info are reported before errors in its members
		var ok bool
		if r.Output, ok = metrics.ReadCount("output_tokens"); !ok {
			r.Output = about.NeedCount("output_tokens")
		}
		if metrics.Err != nil {
			f.Complain("%w", metrics.Err)
		}
		if f.Err != nil {
			return f.Err
		}
		if n, ok := about.ReadCount("input_tokens"); ok && s.Options.TokensPerByte == 0 && s.Options.Tokenizer == "" {
			r.Input, r.Private = n, true
			g.All = append(g.All, r)
			return nil
		}
		body := scan.Object{Members: []scan.Member{{Key: []byte("request"), Value: f.Value("request")}}}
		if err := t.FillPrompt(&r, t.CollectPrompt(listPayloads(&body)...)); err != nil {
			return err
		}
		g.All = append(g.All, r)
		return nil
	})
}

func refuseSummary(s *formats.Stream) error {
	return &loadgen.SyntaxError{Name: s.Name, Msg: "summary only, no requests; must be a file with one entry per request"}
}
