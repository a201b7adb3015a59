package drive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
)

// BenchmarkPace measures how late requests are sent. BenchmarkPace plays 3 s of 1,000 requests per second, and of 100
// per second with long prompts, against a server in this process. BenchmarkPace requires an idle machine.
func BenchmarkPace(b *testing.B) {
	for _, c := range []struct{ perSecond, tokens int }{{1000, 100}, {100, 20_000}} {
		b.Run(fmt.Sprintf("persecond=%d/tokens=%d", c.perSecond, c.tokens), func(b *testing.B) {
			const seconds = 3
			var trace strings.Builder
			for i := range c.perSecond * seconds {
				fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":%d,"output_length":2,"hash_ids":[`, i*1000/c.perSecond, c.tokens)
				for k := range c.tokens/4 - 1 {
					fmt.Fprintf(&trace, "%d,", k)
				}
				fmt.Fprintf(&trace, "%d]}\n", 100_000+i)
			}
			for b.Loop() {
				var late []float64
				for _, r := range playTrace(b, b.Context(), &fake{}, replay.Spec{}, trace.String()).rows {
					late = append(late, max(0, 1000*(r.Arrival-*r.Due)))
				}
				d := collector.Describe(late)
				b.ReportMetric(d.Median, "late-p50-ms")
				b.ReportMetric(d.P99, "late-p99-ms")
				b.ReportMetric(d.Max, "late-max-ms")
			}
		})
	}
}
