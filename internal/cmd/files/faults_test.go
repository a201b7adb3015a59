package files

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

func TestFaultFile(t *testing.T) {
	event := func(x engines.Fault) engines.Fault {
		if x.For == 0 {
			x.For = engines.Forever
		}
		if x.Back == 0 {
			x.Back = engines.Forever
		}
		x.N = max(x.N, 1)
		return x
	}
	const any = engines.Anywhere
	for _, c := range []struct {
		text string
		two  bool
		want engines.Faults
	}{
		{"- {at: 10m, worker: 3, what: dies, back: 60s}\n- at: 5\n  what: index\n", false, engines.Faults{
			OnLoss: engines.LoseThem, Limit: 3, Events: []engines.Fault{
				event(engines.Fault{At: 600000, Kind: engines.Dies, Pool: any, Zone: any, Workers: []sim.WorkerID{3}, Back: 60000}),
				event(engines.Fault{At: 5, Kind: engines.NoIndex, Pool: any, Zone: any}),
			}}},
		{"on_loss: retry\nlimit: 0\nafter: 2s\ndetect: 500ms\nzones: [0, 0, 1]\nfaults:\n- {at: 1, zone: 1, what: hangs, for: 2s}\n- {mtbf: 6h, mttr: 5m, worker: all}\n", false, engines.Faults{
			OnLoss: engines.RetryThem, After: 2000, Detect: 500, ZoneOf: []int{0, 0, 1},
			Events: []engines.Fault{event(engines.Fault{At: 1, Kind: engines.Hangs, Pool: any, Zone: 1, For: 2000})},
			Laws:   []engines.FaultLaw{{Pool: any, Between: 6 * 3600e3, Repair: 300e3}}}},
		{"- {at: 1, pool: decode, worker: [0, 2], what: slow, factor: 3}\n- {at: 2, what: link, share: 0.5, for: 1s}\n- {at: 3, pool: prefill, what: rolling, n: 2}", true, engines.Faults{
			OnLoss: engines.LoseThem, Limit: 3, Events: []engines.Fault{
				event(engines.Fault{At: 1, Kind: engines.Slows, Pool: 1, Zone: any, Workers: []sim.WorkerID{0, 2}, Factor: 3}),
				event(engines.Fault{At: 2, Kind: engines.Link, Pool: any, Zone: any, Factor: 0.5, For: 1000}),
				event(engines.Fault{At: 3, Kind: engines.Rolling, Pool: 0, Zone: any, N: 2}),
			}}},
	} {
		if got, err := ParseFaults("f.yaml", []byte(c.text), c.two); err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
}

// Invalid settings are rejected with the line and the rule.
func TestFaultFileRefuses(t *testing.T) {
	for _, c := range []struct {
		text string
		two  bool
		want string
	}{
		{"", false, "f.yaml: no faults"},
		{"- [1]", false, "f.yaml:1: must be a fault"},
		{"- {at: -2s, worker: 1, what: dies}", false, "f.yaml:1: at: -2s: must be ms"},
		{"\n- {at: 2s, worker: 1, what: die}", false, "f.yaml:2: what: die: must be dies, hangs, slow, link, index, router, rolling or role, did you mean dies?"},
		{"- {at: 2s, what: dies}", false, "f.yaml:1: dies: must be worker, pool or zone"},
		{"- {at: 2s, worker: 1, worker: 2, what: dies}", false, "f.yaml:1"},
		{"- {at: 2s, worker: 1}", false, "must be at and what"},
		{"- {at: 2s, worker: 1, what: hangs}", false, "hangs: must be for"},
		{"- {at: 2s, worker: 1, what: dies, for: 3s}", false, "dies: for has no effect"},
		{"- {at: 2s, worker: 1, what: dies, bac: 3s}", false, "f.yaml:1: bac: no such key of a fault, must be at, what, pool, zone, worker, for, back, factor, share, n, mtbf or mttr, did you mean back?"},
		{"- {at: 2s, pool: decode, what: dies}", false, "pool: requires --prefill-workers"},
		{"- {at: 2s, pool: decod, what: dies}", true, "must be prefill or decode, did you mean decode?"},
		{"- {at: 2s, worker: 1, what: dies}", true, "requires pool: prefill or decode"},
		{"- {mtbf: 5m}", false, "a law: must be mttr"},
		{"- {mtbf: 5m, mttr: 1s, at: 3s}", false, "a law: at has no effect"},
		{"on_loss: migrat\nfaults: []", false, "did you mean migrate?"},
		{"limits: 3", false, "did you mean limit?"},
		{"zones: 0", false, "f.yaml:1: zones: 0, must be 1 to"},
	} {
		if got, err := ParseFaults("f.yaml", []byte(c.text), c.two); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v; want %q", c.text, got, err, c.want)
		}
	}
}

// Any file is either accepted or rejected with an error that names the file.
func FuzzFaults(f *testing.F) {
	for _, text := range []string{"", "- {at: 5, worker: 2, what: dies}", "zones: 3\nfaults:\n- {mtbf: 1h, mttr: 1s}", "- &a {at: 5, what: index}\n- *a", "faults: {at: 3}"} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, two bool) {
		if _, err := ParseFaults("f.yaml", []byte(text), two); err != nil && !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("%q: %v", text, err)
		}
	})
}
