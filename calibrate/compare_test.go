package calibrate

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

// TestCompare compares a run with its replay. TestCompare checks the measured and simulated times, the cached share,
// the share of each server, and repeats of the run as noise.
func TestCompare(t *testing.T) {
	dir, slower := t.TempDir(), t.TempDir()
	measuredtest.WriteRecorded(t, dir, "", "")
	measuredtest.WriteRecorded(t, slower, `"first_token_ts":5.05,"last_token_ts":5.08`, `"first_token_ts":5.49,"last_token_ts":5.52`)
	m, err := ReadTimes(dir)
	if err != nil {
		t.Fatal(err)
	}
	repeat, err := ReadTimes(slower)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compare(replayTrace(t, m, m.Prompts), []*Measured{m, repeat})
	if err != nil {
		t.Fatal(err)
	}
	sides := map[string]Side{}
	var names []string
	for _, s := range c.Sides {
		sides[s.Name] = s
		names = append(names, s.Name)
	}
	if want := "TTFT mean,TTFT p50,TTFT p90,TTFT p99,TPOT mean"; len(c.Sides) != 19 || !strings.HasPrefix(strings.Join(names, ","), want) {
		t.Errorf("sides %v, want %s and so on, hit rate and two shares", names, want)
	}
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("measured TTFT", sides["TTFT mean"].Measured, 0.05)
	near("measured ITL", sides["ITL p99"].Measured, 0.02)
	near("measured E2E", sides["E2E p50"].Measured, 0.08)
	near("least noise", float64(sides["TTFT mean"].Noise[0]), 0)
	near("most noise", float64(sides["TTFT mean"].Noise[1]), 0.44/22/0.05)
	hit := sides["hit rate"]
	tokens := 0
	for _, r := range m.Requests {
		if !r.Cut {
			tokens += r.Input
		}
	}
	near("hit rate", hit.Measured, 22*16/float64(tokens))
	near("share", sides["share of s0"].Measured, 12.0/22)
	near("share in the replay", sides["share of s0"].Simulated, 1) // all on one worker
	if s := sides["share of s1"]; s.Simulated != 0 || !s.IsShare() || s.Off() != Rate(-10.0/22) {
		t.Errorf("%+v", s)
	}
	if b := c.Requests[0]; b.TTFT[0] <= 0 || b.TTFT[1] <= 0 || b.Cached[0] != 16 || b.Server != "s0" || len(c.Requests) != 22 {
		t.Errorf("%+v of %d", b, len(c.Requests))
	}
}
