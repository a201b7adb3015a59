package bench

import (
	"testing"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// Every row, also a small one, ends with all requests answered. A row without its trace is skipped.
func TestRowsRun(t *testing.T) {
	for _, r := range row.All() {
		t.Run(r.Name(), func(t *testing.T) {
			r.Requests = 200
			report := replay(t, config(t, &r, workload(t, &r)))
			if report.Completed != 200 || report.Requests != 200 || report.OutputTokens < 200 {
				t.Errorf("%d of %d requests completed, %d tokens", report.Completed, report.Requests, report.OutputTokens)
			}
		})
	}
}
