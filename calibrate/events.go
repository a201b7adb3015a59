package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
)

// shareContrast, timeContrast and leftOver are limits of the test for lost KV events. shareContrast is the least
// error of a wrong replay in shares of the generated tokens. timeContrast is the least error in times per token, if
// shares are unknown. leftOver is the part of the error that the correct replay may have.
const (
	shareContrast = 0.03
	timeContrast  = 0.05
	leftOver      = 0.5
)

// routing holds the distances of two replays from a run. In the first replay the router receives KV events, and in
// the second it does not.
type routing struct {
	heard, unheard float64
	least          float64 // a replay with a larger distance is wrong
	shares         bool    // the distances are between shares of tokens, not between times
}

// FindEvents finds whether the router of the run received the KV events of its servers. FindEvents replays the run
// with events and without them. Events count as lost if only the second replay explains the load of the servers or
// the times per token. If neither replay is clearly better, the assumption in m stays. The assumption in m can come
// from a profile of the same servers. FindEvents returns the replay that corresponds to the result.
func (m *Measured) FindEvents(replay func(unheard bool) (*harness.Result, error)) (*harness.Result, error) {
	var results [2]*harness.Result
	for i, unheard := range []bool{false, true} {
		var err error
		if results[i], err = replay(unheard); err != nil || !m.RouterListens {
			return results[i], err
		}
	}
	r, err := m.compareRouting(results)
	if err != nil {
		return nil, err
	}
	m.decideEvents(r)
	if m.Unheard {
		return results[1], nil
	}
	return results[0], nil
}

// decideEvents keeps the assumption about KV events unless r clearly contradicts it. decideEvents adds a note if the
// events do not reach the router.
func (m *Measured) decideEvents(r routing) {
	switch {
	case r.heard > r.least && r.unheard < leftOver*r.heard:
		m.Unheard = true
	case r.unheard > r.least && r.heard < leftOver*r.unheard:
		m.Unheard = false
	case m.Unheard:
		m.noteEvents("as on the servers of the profile")
		return
	}
	if m.Unheard {
		how := fmt.Sprintf("times per token are %.1f %% off with them and %.1f %% without", 100*r.heard, 100*r.unheard)
		if r.shares {
			how = fmt.Sprintf("the servers' shares of tokens are %.1f points off with them and %.1f without", 100*r.heard, 100*r.unheard)
		}
		m.noteEvents(how)
	}
}

// noteEvents adds a note that KV events do not reach the router, with the reason.
func (m *Measured) noteEvents(how string) {
	m.Settings.AddNote("%s: KV events do not reach the router, so that no prompt counts as cached: %s; --signal-delay index=0 replays with them", m.Name, how)
}

// compareRouting returns the distances of two replays from the run. The router of the first replay receives KV
// events.
func (m *Measured) compareRouting(results [2]*harness.Result) (r routing, err error) {
	own := m.serverShares()
	r.shares, r.least = own != nil, shareContrast
	if !r.shares {
		r.least = timeContrast
	}
	for i, off := range []*float64{&r.heard, &r.unheard} {
		if r.shares {
			*off = distanceOfShares(own, m.workerShares(results[i]))
		} else if *off, err = m.distanceOfTimes(results[i]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// distanceOfTimes returns the distance between the times per token of a replay and of the run. The distance is the
// average over mean, median and p90.
func (m *Measured) distanceOfTimes(result *harness.Result) (float64, error) {
	out, err := m.outcomeOf(result)
	if err != nil {
		return 0, err
	}
	parts, _ := splitParts(m, 0)
	e := judgeOutcome(m, parts[0].withoutWarmUp(m), out)[1]
	return (math.Abs(e.Mean) + math.Abs(e.P50) + math.Abs(e.P90)) / 3, nil
}

// serverShares returns the shares of the servers in the generated tokens, the busiest server first. Each share is the
// mean over the time of the run. The result is nil if the shares are unknown.
func (m *Measured) serverShares() []float64 {
	if _, taken := m.PodsOfRows(); taken != nil {
		return sharesOver(len(m.Requests), func(i int) (int, float64, float64, int) {
			r := &m.Requests[i]
			return taken[i], r.First, r.Last, r.Output
		})
	}
	if len(m.Pods) < 2 {
		return nil
	}
	n := math.MaxInt
	for i := range m.Pods {
		n = min(n, len(m.Pods[i].Steps))
	}
	if n < measured.FewLines {
		return nil
	}
	windows := make([][]float64, n)
	for k := range windows {
		for i := range m.Pods {
			windows[k] = append(windows[k], m.Pods[i].Steps[k])
		}
	}
	return meanShares(windows)
}

// workerShares returns the same as serverShares for the workers of a replay.
func (m *Measured) workerShares(result *harness.Result) []float64 {
	records := m.recordsOf(result)
	return sharesOver(len(records), func(i int) (int, float64, float64, int) {
		r := &records[i]
		return int(r.Worker), float64(r.First) / 1000, float64(r.Last) / 1000, int(r.OutputTokens)
	})
}

// sharesOver returns the mean shares of servers over windows of measured.LogPeriod, the busiest server of each window
// first. The function request returns the server of request i, the instants of its first and last tokens, and its
// number of tokens.
func sharesOver(n int, request func(i int) (server int, first, last float64, tokens int)) []float64 {
	var windows [][]float64
	servers := 0
	for i := range n {
		server, first, last, tokens := request(i)
		if !(first <= last) {
			continue // the request was cut off
		}
		servers = max(servers, server+1)
		each := float64(tokens) / max(last-first, 1e-3)
		for k := max(int(first/measured.LogPeriod), 0); float64(k*measured.LogPeriod) < last; k++ {
			for len(windows) <= k {
				windows = append(windows, nil)
			}
			for len(windows[k]) <= server {
				windows[k] = append(windows[k], 0)
			}
			windows[k][server] += each * (min(last, float64((k+1)*measured.LogPeriod)) - max(first, float64(k*measured.LogPeriod)))
		}
	}
	for k := range windows {
		for len(windows[k]) < servers {
			windows[k] = append(windows[k], 0)
		}
	}
	if len(windows) > 4 { // without the start and the end of the run, as for lines of logs
		windows = windows[2 : len(windows)-1]
	}
	return meanShares(windows)
}

// meanShares returns the mean shares over windows, the largest share of each window first.
func meanShares(windows [][]float64) []float64 {
	var mean []float64
	counted := 0.0
	for _, w := range windows {
		total := 0.0
		for _, x := range w {
			total += x
		}
		if total == 0 {
			continue
		}
		counted++
		slices.SortFunc(w, func(a, b float64) int { return cmp.Compare(b, a) })
		for len(mean) < len(w) {
			mean = append(mean, 0)
		}
		for i, x := range w {
			mean[i] += x / total
		}
	}
	for i := range mean {
		mean[i] /= counted
	}
	return mean
}

// distanceOfShares returns the part of all tokens that has different servers in a and b.
func distanceOfShares(a, b []float64) float64 {
	off := 0.0
	for i := range max(len(a), len(b)) {
		x, y := 0.0, 0.0
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		off += math.Abs(x-y) / 2
	}
	return off
}

// findEvents finds for each run with a known router whether the router received KV events. findEvents starts with the
// runs that have known shares of servers. The result for runs with known shares is the assumption for the other runs
// with the same router, and for the profile.
func findEvents(runs []*Measured, o Options, p *timing.Profile) error {
	for _, own := range []bool{true, false} {
		for i, m := range runs {
			if !m.isRouted() || own != (m.serverShares() != nil) {
				continue
			}
			m.Unheard = slices.ContainsFunc(runs[:i], func(x *Measured) bool { return x.Unheard && x.Settings.Router == m.Settings.Router })
			_, err := m.FindEvents(func(unheard bool) (*harness.Result, error) {
				before := m.Unheard
				defer func() { m.Unheard = before }()
				m.Unheard = unheard
				return o.Replay(m, p, 0)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// noteEvents adds the results about KV events to the notes and to the profile.
func (r *Result) noteEvents(runs []*Measured) {
	for i, m := range runs {
		if m.Unheard {
			r.Profile.Unheard = true
			r.addNotesOf(runs[i])
		}
	}
}
