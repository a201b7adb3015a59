package bench

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// BenchmarkScale replays more requests and more workers. The time per request should not grow with requests, and only
// a little with workers. tools/benchpeer -scale measures the real size.
func BenchmarkScale(b *testing.B) {
	for _, size := range []struct{ requests, workers int }{
		{row.ConversationRequests, 8}, {row.ConversationRequests, 64}, {row.ConversationRequests, 512},
		{4 * row.ConversationRequests, 64},
	} {
		b.Run(fmt.Sprintf("requests=%d/workers=%d", size.requests, size.workers), func(b *testing.B) {
			r := row.Row{
				Source: row.Conversation, Requests: size.requests,
				Engine: "vllm", BlockTokens: row.TraceBlock, Workers: size.workers, KV: true,
			}
			cfg := config(b, &r, workload(b, &r))
			for b.Loop() {
				replay(b, cfg)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(size.requests), "ns/request")
		})
	}
}
