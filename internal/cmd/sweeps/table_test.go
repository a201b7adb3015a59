package sweeps

import (
	"testing"

	"github.com/replay-llm/replay/internal/table"
)

// The answer names the cells with the best values. Values that are equal as shown do not make one cell the best.
func TestSweepAnswer(t *testing.T) {
	for _, c := range []struct {
		rows [][]any // workers, router, cost, TTFT, throughput
		want string
	}{
		{nil, "No cell has a report."},
		{[][]any{{2.0, "kv", nil, nil, nil}}, "No cell has a report."},
		{
			[][]any{{2.0, "kv", 3.081, 269.4, 450.788}, {2.0, "p2c", 3.0811, 294.9, 450.787}, {4.0, "kv", 6.162, 286.3, 450.791}},
			"Of all cells, the cost of a million output tokens is lowest with workers 2 (3.08); p99 TTFT is lowest with workers 2, router kv (269 ms). In all of them, output throughput is 451 tokens/s.",
		},
		{
			[][]any{{2.0, "kv", 3.0, 100.0, 400.0}, {4.0, "p2c", 3.0, 100.0, 500.0}, {8.0, "kv", 6.0, 200.0, 500.0}},
			"Of all cells, the cost of a million output tokens is lowest in 2 of the cells (3.00); p99 TTFT is lowest in 2 of the cells (100 ms); output throughput is highest in 2 of the cells (500 tokens/s).",
		},
		{[][]any{{2.0, "kv", 3.0, nil, nil}, {4.0, "kv", 3.0, nil, nil}}, "Of all cells, all have the same values: the cost of a million output tokens is 3.00."},
	} {
		all := &table.Table{Rows: c.rows, Columns: []table.Column{
			{Name: "workers", Setting: true}, {Name: "router", Setting: true},
			{Name: "cost_per_million_output_tokens"}, {Name: "p99_ttft_ms"}, {Name: "output_throughput_tok_s"},
		}}
		if got := sweepAnswer(all, nil).Verdict; got != c.want {
			t.Errorf("%v:\n%s, want\n%s", c.rows, got, c.want)
		}
	}
}
