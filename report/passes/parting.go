package passes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Parting is the first pass at which the schedules of two runs part.
type Parting struct {
	AtMS   float64 `json:"at_ms"` // where the pass begins, in the run in which it begins first
	Worker string  `json:"worker"`
	Index  int     `json:"pass"` // of the worker, from 0
	What   string  `json:"what"` // as in "admitted requests"
	A      string  `json:"a"`
	B      string  `json:"b"`
}

func (p *Parting) String() string {
	return fmt.Sprintf("pass %d of %s at %s ms: %s: %s in A; %s in B", p.Index, p.Worker, number(p.AtMS), p.What, p.A, p.B)
}

// track is a worker of a stage.
type track struct {
	decode bool
	worker int32
}

func (t track) String() string {
	if t.decode {
		return "decode worker " + strconv.Itoa(int(t.worker))
	}
	return "worker " + strconv.Itoa(int(t.worker))
}

// Part finds the first pass, by the time at which it begins, that a and b do not
// have alike; nil when there is none. requests gives what a request of b is
// called in a; -1 stands for one that a does not have. What is left in a cache
// does not count: it shows in the passes that follow from it.
func Part(a, b []Pass, requests func(int32) int32) *Parting {
	tracksA, tracksB := byTrack(a), byTrack(b)
	all := maps.Clone(tracksA)
	maps.Copy(all, tracksB)
	var first *Parting
	for _, t := range slices.SortedFunc(maps.Keys(all), func(x, y track) int {
		if x.decode != y.decode {
			return cmp.Compare(rank(x.decode), rank(y.decode))
		}
		return cmp.Compare(x.worker, y.worker)
	}) {
		p := part(&stream{passes: tracksA[t]}, &stream{passes: tracksB[t]}, requests)
		if p != nil && (first == nil || p.AtMS < first.AtMS) {
			p.Worker = t.String()
			first = p
		}
	}
	return first
}

func rank(decode bool) int {
	if decode {
		return 1
	}
	return 0
}

func byTrack(all []Pass) map[track][]*Pass {
	tracks := map[track][]*Pass{}
	for i := range all {
		t := track{all[i].Decode, all[i].Worker}
		tracks[t] = append(tracks[t], &all[i])
	}
	return tracks
}

// stream is the passes of a worker that are left, one run after the other.
type stream struct {
	passes []*Pass
	done   int32 // passes of the first run that are over
}

// start is when the next pass begins.
func (s *stream) start() float64 {
	p := s.passes[0]
	return p.Start + float64(float64(s.done)*p.Gap)
}

// skip leaves n passes of the first run behind.
func (s *stream) skip(n int32) {
	if s.done += n; s.done >= s.passes[0].Count {
		s.passes, s.done = s.passes[1:], 0
	}
}

// part finds the first pass that differs on one worker.
func part(a, b *stream, requests func(int32) int32) *Parting {
	index := 0
	for len(a.passes) > 0 && len(b.passes) > 0 {
		p, q := a.passes[0], b.passes[0]
		if what, x, y := differ(a, b, requests); what != "" {
			return &Parting{AtMS: min(a.start(), b.start()), Index: index, What: what, A: x, B: y}
		}
		n := min(p.Count-a.done, q.Count-b.done)
		a.skip(n)
		b.skip(n)
		index += int(n)
	}
	switch {
	case len(a.passes) > 0:
		return &Parting{AtMS: a.start(), Index: index, What: "passes", A: "one", B: "none"}
	case len(b.passes) > 0:
		return &Parting{AtMS: b.start(), Index: index, What: "passes", A: "none", B: "one"}
	}
	return nil
}

// differ says in what the next passes differ; what is "" when in nothing.
func differ(a, b *stream, requests func(int32) int32) (what, x, y string) {
	p, q := a.passes[0], b.passes[0]
	if s, t := a.start(), b.start(); s != t {
		return "start", "at " + number(s) + " ms", "at " + number(t) + " ms"
	}
	for _, list := range []struct {
		what  string
		lists func(*Pass) ([]int32, []int32)
	}{
		{"admitted requests", func(p *Pass) ([]int32, []int32) { return p.Admitted, nil }},
		{"preempted requests", func(p *Pass) ([]int32, []int32) { return p.Lost, nil }},
		{"prompt tokens", func(p *Pass) ([]int32, []int32) { return p.Computed, p.Chunks }},
	} {
		idsA, tokensA := list.lists(p)
		idsB, tokensB := list.lists(q)
		idsB = renamed(idsB, requests)
		if !slices.Equal(idsA, idsB) || !slices.Equal(tokensA, tokensB) {
			return list.what, told(idsA, tokensA), told(idsB, tokensB)
		}
	}
	if p.Tokens != q.Tokens {
		return "answer tokens", strconv.Itoa(int(p.Tokens)), strconv.Itoa(int(q.Tokens))
	}
	if p.Gap != q.Gap {
		return "duration", number(p.Gap) + " ms", number(q.Gap) + " ms"
	}
	return "", "", ""
}

func renamed(ids []int32, requests func(int32) int32) []int32 {
	all := make([]int32, len(ids))
	for i, id := range ids {
		all[i] = requests(id)
	}
	return all
}

// told puts requests into words, with tokens where there are any.
func told(ids, tokens []int32) string {
	const most = 8
	if len(ids) == 0 {
		return "none"
	}
	var words []string
	for i, id := range ids[:min(len(ids), most)] {
		word := "another request"
		if id >= 0 {
			word = strconv.Itoa(int(id))
		}
		if tokens != nil {
			word = fmt.Sprintf("%d of %s", tokens[i], word)
		}
		words = append(words, word)
	}
	if len(ids) > most {
		words = append(words, fmt.Sprintf("%d more", len(ids)-most))
	}
	return strings.Join(words, ", ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
