package collector_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/replay-llm/replay/replay/collector"
)

// TestTableIsThatOfTheReference compares the table for table.json with table.txt, which the reference printed.
func TestTableIsThatOfTheReference(t *testing.T) {
	want, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/table.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := collector.ReadJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := r.WriteText(&got, collector.Text{Title: "NVIDIA AIPerf | LLM Metrics", Form: collector.Reference}); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestTextAroundTheTable(t *testing.T) {
	r := &collector.Report{WallMS: 1234.565, PrefixCacheReusedRatio: 0.125, Completed: 1_234_567, OutputTokensPerS: 999.995}
	for _, c := range []struct {
		form              collector.Form
		begin, count, hit string
	}{
		{collector.Narrow, "replay | LLM Metrics\nMetric ", "\nRequest Count (requests): 1,234,567\n", "Hit Rate"},
		{collector.Wide, "replay | LLM Metrics\n┏━", " 1,234,567.00 ┃ ", "Hit Rate"},
		{collector.Reference, "replay | LLM Metrics\n┏━", " 1,234,567.00 ┃ ", "Reused Ratio"},
	} {
		var got strings.Builder
		if err := r.WriteText(&got, collector.Text{Saved: "out/r.json", Form: c.form}); err != nil {
			t.Fatal(err)
		}
		end := "\nWall Time (ms): 1,234.57\nPrefix Cache " + c.hit + ": 0.12\nSaved full report to: out/r.json\n"
		for what, ok := range map[string]bool{
			"begin": strings.HasPrefix(got.String(), c.begin),
			"count": strings.Contains(got.String(), c.count),
			"end":   strings.HasSuffix(got.String(), end),
		} {
			if !ok {
				t.Errorf("form %d: another %s:\n%s", c.form, what, got.String())
			}
		}
	}
}

// TestTablesHaveTheMedian checks that the narrow table fits in 80 columns for any values and includes the median.
// TestTablesHaveTheMedian also checks that the wide table has all columns.
func TestTablesHaveTheMedian(t *testing.T) {
	of := func(v float64) collector.Distribution {
		return collector.Distribution{Mean: v, Min: v, Max: 9.996 * v, Median: v + 1, P75: v, P90: v, P99: v, Std: v}
	}
	r := &collector.Report{TTFT: of(0), TTST: of(0.5), TPOT: of(99_999.99), E2E: of(9_999_999), ITL: of(1e5), UserThroughput: of(7.25)}
	var narrow, wide strings.Builder
	if err := errors.Join(r.WriteText(&narrow, collector.Text{}), r.WriteText(&wide, collector.Text{Form: collector.Wide})); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, row := range []string{
		"Metric                           avg        p50        p90        p99        max\n",
		"Time to First Token (ms)        0.00       1.00       0.00       0.00       0.00\n",
		"Request Latency (ms)       9,999,999 10,000,000  9,999,999  9,999,999 99,959,990\n",
		"Inter Token Latency (ms)  100,000.00 100,001.00 100,000.00 100,000.00 999,600.00\n",
		"Time per Output Token (ms) 99,999.99 100,000.99  99,999.99  99,999.99 999,599.90\n",
		"(tokens/sec/user)\n                                7.25       8.25 ",
	} {
		if !strings.Contains(narrow.String(), row) {
			t.Errorf("no %q in\n%s", row, narrow.String())
		}
	}
	for _, name := range []string{"avg", "min", "max", "p99", "p90", "p75", "p50", "std", "Time per Output Token"} {
		if !strings.Contains(wide.String(), " "+name+" ") {
			t.Errorf("no %s in\n%s", name, wide.String())
		}
	}
}
