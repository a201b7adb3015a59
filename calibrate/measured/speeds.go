package measured

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler/timing"
)

// leastSlow is the least slowness of a server that is simulated as slow, as a share. slowContrast is the least
// slowness in standard deviations.
const (
	leastSlow    = 0.05
	slowContrast = 3
	FewPeers     = 3 // with two servers, the slow one cannot be identified
)

// FindSpeeds finds the servers of a run that are slower than their peers at equal load. FindSpeeds uses rows with the
// server that answered, or otherwise the servers' own logs and metrics. The argument servers is the number of
// servers, 0 if it is unknown.
func (m *Run) FindSpeeds(servers int) {
	all, taken := m.PodsOfRows()
	if all == nil {
		all = m.Pods
	}
	if servers > 0 && len(all) != servers || m.Settings.DataParallel > 1 {
		return
	}
	speeds := m.speedsOf(all)
	if speeds == nil {
		return
	}
	m.Speeds, m.Taken = speeds, taken
	for i, speed := range speeds {
		if speed < 1 {
			m.Slow = append(m.Slow, timing.SlowServer{Run: m.Name, Server: all[i].Name, Share: 1/speed - 1})
		}
	}
}

// NoteSpeeds adds notes about the servers of the run that are simulated as slow.
func (m *Run) NoteSpeeds() {
	for i := range m.Slow {
		s := &m.Slow[i]
		n := fmt.Sprintf("%s: %s is %.1f %% slower than its peers at equal load: simulated so", m.Name, s.Server, 100*s.Share)
		if !slices.Contains(m.Settings.Notes, n) {
			m.Settings.Notes = append(m.Settings.Notes, n)
		}
	}
}

// SpeedsFor returns the speeds of the workers that simulate the servers of the run, relative to an ordinary worker.
// SpeedsFor adds notes about slow servers. SpeedsFor returns nil if the servers are equal or if there is another
// number of workers.
func (m *Run) SpeedsFor(workers int) []float64 {
	if len(m.Speeds) != workers {
		return nil
	}
	m.NoteSpeeds()
	return slices.Clone(m.Speeds)
}

// slownessOf returns the logarithm of the ratio between the pass times of each server and of the median server, at
// equal load. slownessOf returns nil if the pass times are unknown.
func (m *Run) slownessOf(all []Pod) (slow []float64) {
	if len(all) < FewPeers {
		return nil
	}
	load, exponent := 0.0, 0.0
	for i := range all {
		if p := &all[i]; p.lines < FewLines || !(p.generated > 0) || !(p.running > 0) {
			return nil
		}
		load += all[i].load / float64(len(all))
	}
	if load > 0 { // 0: unknown
		exponent = m.loadExponent(load)
	}
	for i := range all {
		t := math.Log(all[i].perToken())
		if load > 0 {
			t -= float64(exponent * math.Log(all[i].load/load))
		}
		slow = append(slow, t)
	}
	usual := QuantileOf(slow, 0.5)
	for i := range slow {
		slow[i] -= usual
	}
	return slow
}

// speedsOf returns the speed of each server relative to the median server, at equal load, or nil if no server is
// slow.
func (m *Run) speedsOf(all []Pod) (speeds []float64) {
	found := false
	for i, off := range m.slownessOf(all) {
		speed := 1.0
		if more := math.Exp(off) - 1; more >= leastSlow && more >= slowContrast*all[i].off {
			speed, found = math.Round(1e4/(1+more))/1e4, true
		}
		speeds = append(speeds, speed)
	}
	if !found {
		return nil
	}
	return speeds
}

// loadExponent returns the exponent of the number of running requests in the time of a pass, near a load and by data
// sheets. A slow server has more running requests, and more requests mean longer passes.
func (m *Run) loadExponent(load float64) float64 {
	input, output := 0, 0
	for i := range m.Requests {
		input, output = input+m.Requests[i].Input, output+m.Requests[i].Output
	}
	n := float64(len(m.Requests))
	tokens, context := 1+float64(input)/float64(output), float64(input)/n+float64(output)/n/2
	p := StartParameters(&m.Settings)
	p.Graphs = nil
	at := func(requests float64) float64 {
		return p.Step(&timing.Step{Tokens: int(math.Round(requests * tokens)), Requests: int(math.Round(requests)), Context: int64(requests * context)})
	}
	return math.Log(at(2*load)/at(load/2)) / math.Log(4)
}

// PodsOfRows returns the servers of the run by the times of their requests, and the server that answered each
// request. PodsOfRows returns nil unless every row has its server.
func (m *Run) PodsOfRows() (all []Pod, taken []int) {
	var names []string
	for i := range m.Requests {
		name := m.Requests[i].Server
		if name == "" {
			return nil, nil
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	by := make([][]*Request, len(names))
	span := 0.0
	for i := range m.Requests {
		r := &m.Requests[i]
		k, _ := slices.BinarySearch(names, r.Server)
		taken = append(taken, k)
		if r.Arrival >= m.WarmUp() && r.Output > 1 && !r.Cut {
			by[k] = append(by[k], r)
			span = max(span, r.Last-m.WarmUp())
		}
	}
	for k, name := range names {
		p := Pod{Name: name, lines: len(by[k])}
		for _, r := range by[k] {
			p.running, p.generated = p.running+(r.Last-r.First), p.generated+float64(r.Output-1)
		}
		p.load = p.running / span
		p.off = ratioScatter(len(by[k]), p.perToken(), func(i int) (float64, float64) { return by[k][i].Last - by[k][i].First, float64(by[k][i].Output - 1) })
		all = append(all, p)
	}
	return all, taken
}

// ratioScatter returns the relative standard deviation of a ratio of sums over n pairs.
func ratioScatter(n int, ratio float64, pair func(i int) (over, under float64)) float64 {
	squares, total := 0.0, 0.0
	for i := range n {
		over, under := pair(i)
		off := over - float64(ratio*under)
		squares += float64(off * off)
		total += over
	}
	return math.Sqrt(squares) / total
}

// ClientWarmUp is the time in s in which the server warms up, for a run that a client measured. The run's requests
// may be the first ones of the server, which then compiles kernels for several seconds and has a queue afterwards.
const ClientWarmUp = 15

// warmUp is the time in s after the start of a run in which a server still loads and compiles. Requests in this time
// are simulated but not fitted to.
const warmUp = 2

// WarmUp returns the time in s in which the run's server warms up.
func (m *Run) WarmUp() float64 {
	if m.Ignored != nil {
		return *m.Ignored
	}
	if m.Client {
		return ClientWarmUp
	}
	return warmUp
}
