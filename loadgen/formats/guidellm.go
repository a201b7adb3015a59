package formats

func isGuide(o *object) bool {
	parts, ok := splitList(o.find("benchmarks"), nil)
	if !ok {
		return false
	}
	var meta, first, requests object
	meta.reparseText(o.find("metadata"))
	if meta.has("guidellm_version") {
		return true
	}
	if len(parts) > 0 {
		first.reparseText(parts[0])
		requests.reparseText(first.find("requests"))
	}
	return requests.has("successful")
}

// openGuide reads the report of GuideLLM.
func openGuide(s *Stream) (rows, error) {
	g := &gathered{s: s}
	s.Private, s.Measured, s.shape.zero = true, true, "skip"
	s.Chained = s.o.Sessions != "flat"
	joins := 0
	err := g.eachObject(func(value []byte, line int) error {
		var f fields
		f.openMember(value, "")
		list := f.readList("benchmarks")
		n, err := s.chooseRun(len(list))
		if err != nil {
			return err
		}
		var run fields
		run.openMember(list[n], elementName("benchmarks", n))
		requests := run.openSub("requests")
		if !requests.has("successful") {
			return g.refuseSummary()
		}
		for i, v := range requests.readList("successful") {
			var q fields
			q.openMember(v, requests.place+elementName("successful", i))
			var r Record
			r.reset(line)
			joins += q.readGuide(&r)
			if q.err != nil {
				return q.err
			}
			g.keepRecord(&r)
		}
		return requests.err
	})
	if err == nil {
		err = s.refuseDAG(0, joins)
	}
	g.inOrder()
	ends := make(lastEnds)
	all := g.all
	g.all = nil
	for i := range all {
		g.linkAfter(&all[i], ends)
	}
	return g, err
}

// readGuide reads a request and counts the parents it has beyond one.
func (f *fields) readGuide(r *Record) (joins int) {
	in, out := f.openSub("input_metrics"), f.openSub("output_metrics")
	r.Input, r.Output = in.needCount("text_tokens"), out.needCount("text_tokens")
	f.adoptError(&in)
	f.adoptError(&out)
	about := f.openSub("info")
	times := about.openSub("timings")
	r.arrives(times.needStamp("request_start", 9))
	var ok bool
	if r.ended, ok = times.readStamp("request_end", 9); !ok {
		r.ended = r.when
	}
	if id := about.readName("conversation_id"); id != nil {
		r.Session, r.Group = id, id
	}
	joins = max(0, len(about.readList("parent_node_ids"))-1)
	f.adoptError(&about)
	f.adoptError(&times)
	return joins
}

// openLifecycle reads the per-request report of inference-perf.
func openLifecycle(s *Stream) (rows, error) {
	g := &gathered{s: s}
	t, err := s.newTexts()
	if err != nil {
		return nil, err
	}
	s.Measured, s.shape.zero = true, "skip"
	err = g.eachObject(func(value []byte, line int) error {
		var f fields
		f.openMember(value, "")
		var r Record
		r.reset(line)
		r.arrives(f.needStamp("start_time", 9))
		if !blankValue(f.value("error")) {
			s.dropped++
			return f.err
		}
		about := f.openSub("info")
		metrics := about.openSub("response_metrics")
		if n, ok := metrics.readCount("output_tokens"); ok {
			r.Output = n
		} else {
			r.Output = about.needCount("output_tokens")
		}
		f.adoptError(&about)
		f.adoptError(&metrics)
		if f.err != nil {
			return f.err
		}
		if n, ok := about.readCount("input_tokens"); ok && s.o.TokensPerByte == 0 && s.o.Tokenizer == "" {
			r.Input, r.Private = n, true
			g.keepRecord(&r)
			return nil
		}
		var body fields
		body.members = append(body.members, member{[]byte("request"), f.value("request")})
		if err := t.fillPrompt(&r, t.collectPrompt(listPayloads(&body)...)); err != nil {
			return err
		}
		g.keepRecord(&r)
		return nil
	})
	return g, err
}
