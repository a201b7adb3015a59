package offline

import (
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// admissionRules draws rules that hold or shed requests.
func (d draw) admissionRules() *policy.Admission {
	a := &policy.Admission{Name: "drawn"}
	rules := []string{
		"min(requests) >= 1", "min(requests) >= 3", "sum(requests) > 4", "queued > 2", "request.waited > 5", "request.input_tokens > 100", "true",
		"mean(tokens_to_compute) > 50", "max(active_blocks) > 8", "max(cached_blocks) == 0 and min(requests) > 0", "oracle.output_tokens > 3", "request.priority > 0", "now > 20",
		"max(waiting) > 0", "max(kv_usage) > 0.5",
	}
	for range 1 + d.IntN(3) {
		a.Rules = append(a.Rules, policy.AdmissionRule{Decision: pick(d, router.Wait, router.Wait, router.Shed, router.Accept), When: pick(d, rules...)})
	}
	return a
}

// TestAdmissionScripts checks replays with random admission rules, with and without faults. Every request ends in
// exactly one outcome, no router or worker holds a request at the end, and all drivers give the same result.
func TestAdmissionScripts(t *testing.T) {
	shed, faulty, lazy := 0, 0, 0
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.cfg.Topology.Admission = d.admissionRules()
		x.cfg.Signals = d.signals(&x.cfg.Topology)
		if d.oneIn(3) {
			x.cfg.Faults = d.faults(&x.cfg.Topology)
			faulty++
		}
		var left witness
		a := x.run(left.drive(false))
		if isStuck(a.err) {
			return false
		}
		if a.err != nil {
			t.Fatalf("%v\n%+v %+v\n%s", a.err, x.cfg.Topology.Admission, x.cfg.Faults, x.show(text))
		}
		if text := left[0].unbalanced(); text != "" {
			t.Fatalf("%s\n%+v %+v\n%s", text, x.cfg.Topology.Admission, x.cfg.Faults, x.show(text))
		}
		by, _ := left[0].Collector.Outcomes()
		shed += by[collector.Shed]
		metered := left[0].pools[0].metered
		if diff := difference(a, x.run(left.drive(true))); diff != "" {
			t.Fatalf("runs and single passes: %s\n%+v %+v\n%s", diff, x.cfg.Topology.Admission, x.cfg.Faults, x.show(text))
		}
		if x.cfg.Faults != nil || metered || x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() || len(x.cfg.Pools) > 1 || len(x.cfg.Scale) > 0 {
			return true
		}
		b := x.run(byLazily(new(int)))
		a.calls, b.calls = nil, nil
		if diff := difference(a, b); diff != "" {
			t.Fatalf("workers brought on one by one: %s\n%+v\n%s", diff, x.cfg.Topology.Admission, x.show(text))
		}
		lazy++
		return true
	})
	if want := trials(t, 2000) / 10; shed < want || faulty < want || lazy < want {
		t.Errorf("%d requests shed, %d trials with faults, %d with workers one by one, want at least %d of each", shed, faulty, lazy, want)
	}
}
