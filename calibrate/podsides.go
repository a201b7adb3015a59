package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/collector"
)

// addPods adds sums over the logs of all servers and over the records of the replay. The sums give the hit rate, and
// the share of each server in the generated tokens, the largest share first.
func (c *Compared) addPods(all []measured.Pod, records []collector.Record) {
	total := 0.0
	for i := range all {
		total += all[i].Served
	}
	if !slices.ContainsFunc(c.Sides, func(s Side) bool { return s.Name == hitRateName }) {
		c.addPodHits(all, records)
	}
	if len(all) < 2 || total == 0 {
		return
	}
	outputs := 0
	byWorker := map[int]int{}
	for i := range records {
		r := &records[i]
		outputs += int(r.OutputTokens)
		byWorker[int(r.Worker)] += int(r.OutputTokens)
	}
	var simulated []int
	for _, tokens := range byWorker {
		simulated = append(simulated, tokens)
	}
	slices.SortFunc(simulated, func(a, b int) int { return cmp.Compare(b, a) })
	most := slices.Clone(all)
	stable.Sort(most, func(a, b measured.Pod) int { return cmp.Compare(b.Served, a.Served) })
	for i := range most {
		s := Side{Name: "share of tokens, " + most[i].Name, Measured: most[i].Served / total}
		if i < len(simulated) {
			s.Simulated = float64(simulated[i]) / float64(outputs)
		}
		c.Sides = append(c.Sides, s)
	}
}

// mostApart is the largest difference between the shares of a server in a run and in its replay that gives no
// warning.
const mostApart = 0.03

// Warnings returns a text for each server with different shares of the work in the run and in its replay.
func (c *Compared) Warnings() (all []string) {
	for i := range c.Sides {
		if s := &c.Sides[i]; s.IsShare() && s.Name != hitRateName && math.Abs(float64(s.Off())) > mostApart {
			all = append(all, fmt.Sprintf("%s: %.1f %% measured, %.1f %% simulated: the replay routes requests differently", s.Name, 100*s.Measured, 100*s.Simulated))
		}
	}
	return all
}

// addPodHits adds the mean hit rate of servers. Each hit rate is over as many of the latest requests as the server's
// log reports on.
func (c *Compared) addPodHits(all []measured.Pod, records []collector.Record) {
	var hits []float64
	latest := 0
	for i := range all {
		if !math.IsNaN(all[i].Hit) {
			hits, latest = append(hits, all[i].Hit), all[i].Latest
		}
	}
	if len(hits) == 0 {
		return
	}
	byWorker := map[int][]*collector.Record{}
	workers := 0
	for i := range records {
		if r := &records[i]; r.Admitted() {
			byWorker[int(r.Worker)], workers = append(byWorker[int(r.Worker)], r), max(workers, int(r.Worker)+1)
		}
	}
	var simulated []float64
	for w := range workers {
		taken := byWorker[w]
		stable.Sort(taken, func(a, b *collector.Record) int { return cmp.Compare(a.Admit, b.Admit) })
		if latest > 0 {
			taken = taken[max(len(taken)-latest, 0):]
		}
		cached, prompts := 0, 0
		for _, r := range taken {
			cached, prompts = cached+int(r.Reused), prompts+int(r.InputTokens)
		}
		if prompts > 0 {
			simulated = append(simulated, float64(cached)/float64(prompts))
		}
	}
	c.Sides = append(c.Sides, Side{Name: hitRateName, Measured: measured.MeanOf(hits), Simulated: measured.MeanOf(simulated)})
}
