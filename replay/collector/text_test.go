package collector_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
)

// The reference printed table.txt for the report in table.json.
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
	if err := r.WriteText(&got, collector.Text{Title: "NVIDIA AIPerf | LLM Metrics"}); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestTextAroundTheTable(t *testing.T) {
	r := &collector.Report{WallMS: 1234.565, PrefixCacheReusedRatio: 0.125, Completed: 1_234_567, OutputTokensPerS: 999.995}
	var got strings.Builder
	if err := r.WriteText(&got, collector.Text{Saved: "out/r.json"}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.String(), "replay | LLM Metrics\n┏━") {
		t.Errorf("title and table begin\n%s", got.String())
	}
	const end = "┘\nWall Time (ms): 1,234.57\nPrefix Cache Reused Ratio: 0.12\nSaved full report to: out/r.json\n"
	if !strings.HasSuffix(got.String(), end) {
		t.Errorf("got\n%s\nwant an end of\n%s", got.String(), end)
	}
	for _, cell := range []string{" 1,234,567.00 ┃", " 1,000.00 ┃", " 0.00 ┃", " N/A ┃"} {
		if !strings.Contains(got.String(), cell) {
			t.Errorf("no cell %q in\n%s", cell, got.String())
		}
	}
}
