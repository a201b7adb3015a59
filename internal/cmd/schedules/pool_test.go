package schedules

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/sim"
)

// memberOf returns a deployment with the given number of workers in each hour. A worker has 2 GPUs.
func memberOf(name string, startup float64, workers ...int) Member {
	h := &ByHour{startup: startup, gpus: func(s plan.Shape) float64 { return float64(2 * s.Size()) }}
	for i, n := range workers {
		h.hours = append(h.hours, hourOf{from: hourMS * sim.Time(i), to: hourMS * sim.Time(i+1), requests: 1, shape: plan.One(n)})
	}
	return Member{Name: name, schedule: h, met: true}
}

// Deployments with peaks at different hours need fewer GPUs than the sum of their peaks. After the end of its trace a
// deployment has its smallest cluster.
func TestPoolAddsHours(t *testing.T) {
	p := &Pool{GPUs: 12, Members: []Member{memberOf("a", 0, 1, 4, 1), memberOf("b", 0, 4, 1)}}
	p.Share()
	var totals []int
	for k := range p.hours {
		totals = append(totals, p.hours[k].total)
	}
	if got := totals; len(got) != 3 || got[0] != 10 || got[1] != 10 || got[2] != 4 {
		t.Errorf("%v GPUs by hour, want 10, 10, 4", got)
	}
	if needed, hour := p.Needed(); needed != 10 || hour != 0 || p.fixed() != 16 {
		t.Errorf("%d in hour %d, %d fixed, want 10 in hour 0, 16 fixed", needed, hour, p.fixed())
	}
	if !p.Fits() || p.Refusal() != "" {
		t.Errorf("12 GPUs do not do: %s", p.Refusal())
	}
	if used, all := p.usedHours(), 3*float64(p.fixed()); used != 24 || used >= all {
		t.Errorf("%v GPU-hours, want 24, fewer than the %v of fixed sizes", used, all)
	}
}

// While new workers start, the workers of the previous hour still serve. New workers and old workers both use GPUs.
func TestPoolCountsWorkersThatStart(t *testing.T) {
	p := &Pool{GPUs: 12, Members: []Member{memberOf("a", 90, 1, 4), memberOf("b", 90, 4, 1)}}
	p.Share()
	if needed, hour := p.Needed(); needed != 16 || hour != 1 {
		t.Errorf("%d in hour %d, want 16 in hour 1", needed, hour)
	}
	if text := p.Refusal(); !strings.Contains(text, "hour 1 needs 16, 4 more") {
		t.Error(text)
	}
	p.Members[1].met, p.Members[1].missed = false, "p99 ttft"
	if text := p.Refusal(); p.Fits() || !strings.Contains(text, "b does not meet the objectives: p99 ttft") {
		t.Error(text)
	}
}
