package sessions

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// addWhole gives the requests with all that they wait for, each after those.
func (g *graphRows) addWhole() {
	for i := range g.nodes {
		n := &g.nodes[i]
		n.rec.HasDelay, n.rec.Delay = false, 0
		n.rec.Name, n.rec.Agent, n.rec.After = n.id, n.session, n.waits
		if n.rec.Group = []byte(n.play); n.play == "" {
			n.rec.Group = []byte(n.session)
		}
		g.All = append(g.All, n.rec)
	}
	g.nodes = nil
	g.All = afterOthers(g.All)
}

// afterOthers is records as they are, but for those that wait for later ones:
// they come after these. There is no cycle among them.
func afterOthers(all []formats.Record) []formats.Record {
	named := make(map[string]int, len(all))
	for i := range all {
		named[all[i].Name] = i
	}
	order := make([]formats.Record, 0, len(all))
	seen := make([]bool, len(all)) // in order, or to be put there
	type visit struct{ record, wait int }
	for i := range all {
		if seen[i] {
			continue
		}
		seen[i] = true
		open := []visit{{record: i}}
		for len(open) > 0 {
			v := &open[len(open)-1]
			if waits := all[v.record].After; v.wait < len(waits) {
				before, known := named[waits[v.wait].Name]
				v.wait++
				if known && !seen[before] {
					seen[before] = true
					open = append(open, visit{record: before})
				}
				continue
			}
			order = append(order, all[v.record])
			open = open[:len(open)-1]
		}
	}
	return order
}

// findCycle looks for requests that wait for each other: those left when all that
// wait for nobody have been taken away again and again.
func (g *graphRows) findCycle() error {
	open := make([]int, len(g.nodes)) // waits left
	heirs := make([][]int, len(g.nodes))
	var ready []int
	for i := range g.nodes {
		open[i] = len(g.nodes[i].waits)
		if open[i] == 0 {
			ready = append(ready, i)
		}
		for _, w := range g.nodes[i].waits {
			heirs[g.named[w.Name]] = append(heirs[g.named[w.Name]], i)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		last := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, h := range heirs[last] {
			if open[h]--; open[h] == 0 {
				ready = append(ready, h)
			}
		}
	}
	if done == len(g.nodes) {
		return nil
	}
	var names []string
	line := 0
	for i := range g.nodes {
		if open[i] > 0 && len(names) < 5 {
			if line == 0 {
				line = g.nodes[i].rec.Line
			}
			names = append(names, excerpt.Cut(g.nodes[i].id))
		}
	}
	return &loadgen.SyntaxError{Name: g.S.Name, Line: line, Msg: fmt.Sprintf("requests %s wait for each other, want no cycle", strings.Join(names, ", "))}
}
