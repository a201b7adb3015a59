package options

import (
	"strings"
	"testing"
)

// An autoscaler of each pool, with what is said of both; and what is refused.
func TestAutoscalePools(t *testing.T) {
	text := "cost: 3\nmetrics: [{metric: held, target: 2}]\nprefill: {max: 4}\ndecode:\n  min: 2\n  metrics: [{metric: running, target: 6}]\nsync: 20s\n"
	entry, decode, err := ParseAutoscale("a.yaml", []byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Max != 4 || entry.Cost != 3 || entry.Sync != 20_000 || len(entry.Targets) != 1 || entry.Targets[0].Metric != "held" {
		t.Errorf("prefill: %+v", entry)
	}
	if decode.Min != 2 || decode.Max != 10 || decode.Sync != 20_000 || len(decode.Targets) != 1 || decode.Targets[0].Metric != "running" {
		t.Errorf("decode: %+v", decode)
	}
	if entry, decode, err := ParseAutoscale("a.yaml", []byte("decode: {metrics: [{metric: held, target: 2}]}"), true); err != nil || entry != nil || decode == nil {
		t.Errorf("decode alone: %v, %v, %v", entry, decode, err)
	}
	for _, c := range []struct {
		text string
		two  bool
		want string
	}{
		{text, false, "a.yaml:3: prefill: only with --prefill-workers"},
		{"min: 2\nmetrics: [{metric: held, target: 2}]", true, "a.yaml:1: an autoscaler of neither pool, want prefill, decode or both"},
		{"prefil: {max: 4}", true, "prefil: no such key of autoscalers"},
		{"decode: {max: 4}", true, "a.yaml:1: no metrics"},
		{"decode:\n  prefill: {max: 4}", true, "a.yaml:2: prefill: no such key of an autoscaler"},
		{"decode: 5", true, "a.yaml:1: want an autoscaler"},
	} {
		if _, _, err := ParseAutoscale("a.yaml", []byte(c.text), c.two); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}
