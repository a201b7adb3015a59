package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/html"
)

// The rows of requests and of sweeps contain the rejected requests with the reason of the report, also if rows of a
// stream were written before.
func TestRejectedRows(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	const requests = 5_000
	var trace strings.Builder
	for i := range requests {
		input := 64
		if i == requests-2 {
			input = 64 * 100
		}
		ids, _ := json.Marshal(slices.Repeat([]int{i}, input/64))
		fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":%d,"output_length":1,"hash_ids":%s}`+"\n", 30*i, input, ids)
	}
	if err := os.WriteFile("late.jsonl", []byte(trace.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(trace.String(), "\n")
	if err := os.WriteFile("few.jsonl", []byte(strings.Join(lines[requests-20:], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--stream", "--stream=false"} {
		printed(t, []string{"trace", "late.jsonl", "--trace-block-size=64", "--max-model-len=4096", how, "--requests=rows.jsonl"})
		rows := readRows(t, "rows.jsonl")
		if len(rows) != requests {
			t.Fatalf("%s: %d rows, want %d", how, len(rows), requests)
		}
		for i, r := range rows {
			want := [2]any{"completed", nil}
			if i == requests-2 {
				want = [2]any{"rejected", "max_model_len"}
			}
			if got := [2]any{r["outcome"], r["rejected_by"]}; got != want {
				t.Fatalf("%s: row %d is %v, want %v", how, i, got, want)
			}
		}
	}
	printed(t, []string{"sweep", "--trace=few.jsonl", "--set=trace-block-size=64", "--grid=max-model-len=4096,8192", "--out=s.html"})
	table := string(printed(t, []string{"sweep", "--trace=few.jsonl", "--set=trace-block-size=64", "--grid=max-model-len=4096,8192"}))
	lines = strings.Split(table, "\n")
	if head := strings.Fields(lines[1]); !slices.Contains(head, "rejected") || strings.Fields(lines[2])[slices.Index(head, "rejected")] != "1" {
		t.Errorf("a sweep does not count a rejected request:\n%s", table)
	}
	var page html.SheetPage
	if readPage(t, "s.html", &page); !slices.Contains(page.Tables[0].Few, "rejected_requests") {
		t.Errorf("its page shows %q, want the rejected requests, too", page.Tables[0].Few)
	}
}

// readRows reads a file of JSON lines.
func readRows(t *testing.T, path string) (rows []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}
