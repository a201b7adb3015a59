package drive

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/sim"
)

// A client with more than 1 % late requests returns a warning.
func TestLateClientIsNoticed(t *testing.T) {
	for late, want := range map[int]string{0: "", 2: "", 3: "3 of 200 requests were sent more than 1 ms late, by 7.0 ms at p99 and 7.0 ms at most"} {
		k := NewKept()
		for i := range 200 {
			due := float64(i)
			r := measure.Row{Status: measure.StatusOK, Due: &due, Arrival: due + 0.0009}
			if i < late {
				r.Arrival = due + 0.007
			}
			k.addRow(&r, &sim.Request{})
		}
		if text := k.Warning(); !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("%d late: %q, want %q", late, text, want)
		}
		fields := map[string]any{}
		for _, f := range k.Fields() {
			fields[f.Key] = f.Value()
		}
		if fields["sent_late_requests"] != late || fields["failed_requests"] != 0 {
			t.Errorf("%d late: %v", late, fields)
		}
	}
}
