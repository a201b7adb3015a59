package limits

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// gap is the time between two tokens of requests that decode in a pass.
type gap struct {
	ms       float64
	count    int // of requests, or of these in several passes
	prompt   int // prompt tokens that the pass computes, 0 if each is the only token of its request: such a pass is as one that decodes
	decoding int // requests that decode in it
	resumed  bool
}

// addGaps adds the gaps that end with a pass, or with each pass of a run.
func (w *Watch) addGaps(p *scheduler.Pass) {
	for i := range p.Gaps {
		if w.window.Holds(p.End) {
			w.gaps = append(w.gaps, gap{ms: float64(p.Gaps[i]), count: 1, resumed: true})
		}
	}
	if p.Decoding == 0 {
		return
	}
	one := gap{count: p.Decoding, prompt: p.PrefillTokens, decoding: p.Decoding}
	if p.Detail != nil && p.Detail.PrefillEnd <= p.Start {
		one.prompt = 0
	}
	if len(p.Ends) == 0 && len(p.Nanos) == 0 && !w.window.IsSet() {
		one.ms, one.count = float64(p.Gap), p.Count*p.Decoding
		w.gaps = append(w.gaps, one)
		return
	}
	for i := range p.Count {
		end := p.Begins(i) + p.GapOf(i)
		if !w.window.Holds(end) {
			continue
		}
		if one.ms = float64(p.GapOf(i)); len(p.Nanos) > i {
			one.ms = float64(sim.Time(p.Nanos[i]) / 1e6)
		}
		if n := len(w.gaps); n > 0 && w.gaps[n-1].isLike(&one) {
			w.gaps[n-1].count += one.count
			continue
		}
		w.gaps = append(w.gaps, one)
	}
}

// isLike reports whether two gaps differ only in their counts.
func (g *gap) isLike(o *gap) bool {
	return g.ms == o.ms && g.prompt == o.prompt && g.decoding == o.decoding && g.resumed == o.resumed
}

// findGaps returns the contents of the longest gaps between tokens.
func (w *Watch) findGaps(o *slo.Objective, value float64) (Limit, bool) {
	l := Limit{OfGaps: true, Over: value > o.LimitMS && o.Statistic != "mean"}
	least := leastOf(o, value)
	counts := map[string]int{}
	all, part := 0, 0
	var prompts, decoding []gap
	for i := range w.gaps {
		g := &w.gaps[i]
		all += g.count
		if l.Over && g.ms <= o.LimitMS || !l.Over && g.ms < least {
			continue
		}
		part += g.count
		switch {
		case g.resumed:
			counts[gapResumed] += g.count
		case g.prompt > 0:
			counts[gapPrefill] += g.count
			prompts = append(prompts, *g)
		default:
			counts[gapDecode] += g.count
			decoding = append(decoding, *g)
		}
	}
	if part == 0 {
		return l, false
	}
	l.Part = float64(part) / float64(all)
	l.PromptTokens = findMedian(prompts, func(g *gap) int { return g.prompt })
	l.Decoding = findMedian(decoding, func(g *gap) int { return g.decoding })
	var causes []Cause
	for _, key := range []string{gapPrefill, gapResumed, gapDecode} {
		addCause(&causes, key, key, float64(counts[key]))
	}
	l.Causes = sortCauses(causes, float64(part))
	return l, true
}

// findMedian returns the median of a number over gaps, 0 without gaps.
func findMedian(all []gap, of func(*gap) int) int {
	stable.Sort(all, func(a, b gap) int { return cmp.Compare(of(&a), of(&b)) })
	total := 0
	for i := range all {
		total += all[i].count
	}
	seen := 0
	for i := range all {
		if seen += all[i].count; 2*seen >= total {
			return of(&all[i])
		}
	}
	return 0
}

// describeGaps describes the contents of the longest gaps.
func (l *Limit) describeGaps() string {
	var parts []string
	for i, c := range l.Causes {
		if i > 0 && c.Share < namedShare {
			continue
		}
		what := "follow a preemption"
		switch c.Key {
		case gapPrefill:
			what = fmt.Sprintf("contain a prefill, of %d prompt tokens in the median", l.PromptTokens)
		case gapDecode:
			what = fmt.Sprintf("are decode steps alone, of %d requests in the median", l.Decoding)
		}
		parts = append(parts, fmt.Sprintf("%.0f%% %s", 100*c.Share, what))
	}
	text := strings.Join(parts, ", ")
	switch {
	case l.Over:
		return fmt.Sprintf("%s of the gaps between tokens exceed the limit; of these %s", formatShare(l.Part), text)
	case l.Part > 0.999:
		return "of the gaps between tokens " + text
	}
	return fmt.Sprintf("of the longest %s of the gaps between tokens %s", formatShare(l.Part), text)
}
