package drive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
)

// BenchmarkPace plays 3 s of 1,000 requests a second against a server of this process,
// and measures how late they are sent. It wants a machine with nothing else to do.
func BenchmarkPace(b *testing.B) {
	const perSecond, seconds = 1000, 3
	var trace strings.Builder
	for i := range perSecond * seconds {
		fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":100,"output_length":2,"hash_ids":[`, i*1000/perSecond)
		for k := range 24 {
			fmt.Fprintf(&trace, "%d,", k)
		}
		fmt.Fprintf(&trace, "%d]}\n", 1000+i)
	}
	for b.Loop() {
		p := playTrace(b, b.Context(), &fake{}, replay.Spec{}, trace.String())
		var late []float64
		for _, r := range p.rows[perSecond/2:] { // connections are made at the beginning
			late = append(late, max(0, 1000*(r.Arrival-*r.Due)))
		}
		d := collector.Describe(late)
		b.ReportMetric(d.Median, "late-p50-ms")
		b.ReportMetric(d.P99, "late-p99-ms")
		b.ReportMetric(d.Max, "late-max-ms")
	}
}
