package formats

import (
	"slices"
)

func isGuide(o *object) bool {
	if _, ok := splitList(o.find("benchmarks"), nil); !ok {
		return false
	}
	return o.openInner("metadata").has("guidellm_version") || o.openFirst("benchmarks").openInner("requests").has("successful")
}

// openGuide reads the report of GuideLLM.
func openGuide(s *Stream) (rows, error) {
	g := &gathered{s: s}
	s.Private, s.Measured = true, true
	s.Chained = s.o.Sessions != "flat"
	joins := 0
	var all []Record
	err := g.eachObject(func(f *fields) error {
		run, err := s.openRun(f, "benchmarks")
		if err != nil {
			return err
		}
		requests := run.openSub("requests")
		if !requests.has("successful") {
			return g.refuseSummary()
		}
		for _, q := range requests.elements("successful") {
			r := Record{Line: f.line}
			joins += q.readGuide(&r)
			if q.err != nil {
				return q.err
			}
			all = append(all, r.Clone())
		}
		return nil
	})
	if err == nil {
		err = s.refuseDAG(0, joins)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return a.when.compare(b.when) })
	ends := make(lastEnds)
	for i := range all {
		g.linkAfter(&all[i], ends)
	}
	return g, err
}

// readGuide reads a request and counts the parents it has beyond one.
func (f *fields) readGuide(r *Record) (joins int) {
	in, out := f.openSub("input_metrics"), f.openSub("output_metrics")
	r.Input, r.Output = in.needCount("text_tokens"), out.needCount("text_tokens")
	about := f.openSub("info")
	if id := about.readName("conversation_id"); id != nil {
		r.Session, r.Group = id, id
	}
	joins = max(0, len(about.readList("parent_node_ids"))-1)
	times := about.openSub("timings")
	r.arrives(times.needStamp("request_start", 9))
	var ok bool
	if r.ended, ok = times.readStamp("request_end", 9); !ok {
		r.ended = r.when
	}
	return joins
}

// openLifecycle reads the per-request report of inference-perf.
func openLifecycle(s *Stream) (rows, error) {
	g := &gathered{s: s}
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Measured = true
	return g, g.eachObject(func(f *fields) error {
		r := Record{Line: f.line}
		r.arrives(f.needStamp("start_time", 9))
		if !blankValue(f.value("error")) {
			s.dropped++
			return nil
		}
		about := f.openSub("info")
		metrics := about.openSub("response_metrics")
		metrics.parent = nil // a complaint about info comes before its own
		var ok bool
		if r.Output, ok = metrics.readCount("output_tokens"); !ok {
			r.Output = about.needCount("output_tokens")
		}
		if metrics.err != nil {
			f.complain("%w", metrics.err)
		}
		if f.err != nil {
			return f.err
		}
		if n, ok := about.readCount("input_tokens"); ok && s.o.TokensPerByte == 0 && s.o.Tokenizer == "" {
			r.Input, r.Private = n, true
			g.all = append(g.all, r)
			return nil
		}
		body := object{members: []member{{[]byte("request"), f.value("request")}}}
		if err := t.fillPrompt(&r, t.collectPrompt(listPayloads(&body)...)); err != nil {
			return err
		}
		g.all = append(g.all, r)
		return nil
	})
}
