package passes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
)

// Parting is the first pass that differs between two runs.
type Parting struct {
	AtMS   float64 `json:"at_ms"` // where the pass begins, in the run in which it begins first
	Worker string  `json:"worker"`
	Index  int     `json:"pass"` // of the worker, from 0
	What   string  `json:"what"` // as in "admitted requests"
	A      string  `json:"a"`
	B      string  `json:"b"`
}

func (p *Parting) String() string {
	return fmt.Sprintf("pass %d of %s at %s ms: %s: %s in A; %s in B", p.Index, p.Worker, numberText(p.AtMS), p.What, p.A, p.B)
}

// track identifies a worker of a stage.
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

// Part returns the first pass, by start time, that differs between a and b; nil if there is none. requests maps the
// requests of b to those of a; -1 is a request that a lacks. The contents of caches are not compared, since they
// affect later passes.
func Part(a, b []Pass, requests func(int32) int32) *Parting {
	tracksA, tracksB := byTrack(a), byTrack(b)
	all := maps.Clone(tracksA)
	maps.Copy(all, tracksB)
	tracks := slices.Collect(maps.Keys(all))
	stable.Sort(tracks, func(x, y track) int {
		return cmp.Or(cmp.Compare(stageRank(x.decode), stageRank(y.decode)), cmp.Compare(x.worker, y.worker))
	})
	var first *Parting
	for _, t := range tracks {
		p := partWorker(&stream{passes: tracksA[t]}, &stream{passes: tracksB[t]}, requests)
		if p != nil && (first == nil || p.AtMS < first.AtMS) {
			p.Worker = t.String()
			first = p
		}
	}
	return first
}

func stageRank(decode bool) int {
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

// stream holds the remaining passes of a worker, as runs.
type stream struct {
	passes []*Pass
	done   int32 // passes of the first run that are over
}

// nextStart returns the start of the next pass.
func (s *stream) nextStart() float64 {
	p := s.passes[0]
	return p.Start + float64(float64(s.done)*p.Gap)
}

// skipPasses drops n passes of the first run.
func (s *stream) skipPasses(n int32) {
	if s.done += n; s.done >= s.passes[0].Count {
		s.passes, s.done = s.passes[1:], 0
	}
}

// partWorker finds the first pass that differs on one worker.
func partWorker(a, b *stream, requests func(int32) int32) *Parting {
	index := 0
	for len(a.passes) > 0 && len(b.passes) > 0 {
		p, q := a.passes[0], b.passes[0]
		if what, x, y := findDifference(a, b, requests); what != "" {
			return &Parting{AtMS: min(a.nextStart(), b.nextStart()), Index: index, What: what, A: x, B: y}
		}
		n := min(p.Count-a.done, q.Count-b.done)
		a.skipPasses(n)
		b.skipPasses(n)
		index += int(n)
	}
	switch {
	case len(a.passes) > 0:
		return &Parting{AtMS: a.nextStart(), Index: index, What: "passes", A: "one", B: "none"}
	case len(b.passes) > 0:
		return &Parting{AtMS: b.nextStart(), Index: index, What: "passes", A: "none", B: "one"}
	}
	return nil
}

// findDifference describes the difference between the next passes, "" if there is none.
func findDifference(a, b *stream, requests func(int32) int32) (what, x, y string) {
	p, q := a.passes[0], b.passes[0]
	if s, t := a.nextStart(), b.nextStart(); s != t {
		return "start", "at " + numberText(s) + " ms", "at " + numberText(t) + " ms"
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
		idsB = renameRequests(idsB, requests)
		if !slices.Equal(idsA, idsB) || !slices.Equal(tokensA, tokensB) {
			return list.what, requestsText(idsA, tokensA), requestsText(idsB, tokensB)
		}
	}
	if p.Tokens != q.Tokens {
		return "answer tokens", strconv.Itoa(int(p.Tokens)), strconv.Itoa(int(q.Tokens))
	}
	if p.Gap != q.Gap {
		return "duration", numberText(p.Gap) + " ms", numberText(q.Gap) + " ms"
	}
	return "", "", ""
}

func renameRequests(ids []int32, requests func(int32) int32) []int32 {
	all := make([]int32, len(ids))
	for i, id := range ids {
		all[i] = requests(id)
	}
	return all
}

// requestsText lists requests, with their tokens if given.
func requestsText(ids, tokens []int32) string {
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

func numberText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
