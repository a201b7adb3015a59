package files

import (
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/sim"
)

func TestScaleFile(t *testing.T) {
	const keep = replay.KeepSize
	for _, c := range []struct {
		text string
		two  bool
		want []replay.ScaleEvent
	}{
		{"- at: 5\n  workers: 2\n- {workers: 1, at: 5}\n", false, []replay.ScaleEvent{{At: 5, Workers: 2, Decode: keep}, {At: 5, Workers: 1, Decode: keep}}},
		{"# later\n- at: 10m\n  workers: 3 # three\n", false, []replay.ScaleEvent{{At: 600000, Workers: 3, Decode: keep}}},
		{"- at: 0\n  prefill: 2\n- at: 1.5s\n  decode: 3\n- {at: 1h1m, prefill: 1, decode: 1}\n", true, []replay.ScaleEvent{
			{At: 0, Workers: 2, Decode: keep}, {At: 1500, Workers: keep, Decode: 3}, {At: 3660000, Workers: 1, Decode: 1},
		}},
	} {
		if got, err := ParseScale("s.yaml", []byte(c.text), c.two); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

// Any file is either accepted or rejected with an error that names the file. Accepted events are in order and within
// bounds.
func FuzzScale(f *testing.F) {
	for _, text := range []string{
		"", "- at: 5\n  workers: 2\n", "- {at: 1m, prefill: 2, decode: 3}", "- at: 5\n  \"at\": 6\n  workers: 1", "- [1]", "- ", "- at:\n  workers: 1",
		"- &a {at: 5, workers: 2}\n- *a\n", "- <<: {at: 5}\n  workers: 1", "---\n- at: 1\n  workers: 1\n---\n- at: 0\n  workers: 1\n", "- at: !!str 5\n  workers: 0x2",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, two bool) {
		all, err := ParseScale("s.yaml", []byte(text), two)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "s.yaml:") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		last := sim.Time(0)
		for _, e := range all {
			if !(e.At >= last) || e.Workers == 0 || e.Decode == 0 || e.Workers == replay.KeepSize && e.Decode == replay.KeepSize {
				t.Errorf("%q: %v", text, all)
			}
			last = e.At
		}
	})
}

func TestParseInstant(t *testing.T) {
	for text, want := range map[string]sim.Time{
		"0": 0, "600000": 600000, "0.5": 0.5, "1e3": 1000, "90s": 90000, "10m": 600000, "1h30m": 5400000, "250us": 0.25, "1.5ms": 1.5,
		"17:05": 61500000, "0:00:30": 30000, "100:00": 360000000,
	} {
		if got, err := cli.ParseInstant(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v ms", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5s", "nan", "inf", "1e999", "10 m", "5d", "ten", "17:5", "17:60", "1:2:3", ":05", "-1:00", "17:", "1:00:00:00", "1.5:00"} {
		if got, err := cli.ParseInstant(text); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}
