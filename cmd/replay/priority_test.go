package main

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/requests"
)

// Where requests have priorities, the order of admission is theirs, by the field that
// the command line names; a row without one has 0.
func TestPriorities(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	for _, c := range []struct {
		words string
		want  []int
	}{
		{"", []int{0, 1, 2, 3}},
		{"--scheduling-policy priority", []int{0, 2, 3, 1}},
		{"--scheduling-policy priority --priority-from urgency", []int{0, 3, 1, 2}},
	} {
		var errs bytes.Buffer
		line := "trace ranked.jsonl --trace-block-size 64 --scheduler-profile vllm --max-num-seqs 1 --requests ranked.csv " + c.words
		if code := run(strings.Fields(line), strings.NewReader(""), &bytes.Buffer{}, &errs); code != 0 {
			t.Fatalf("replay %s: exit %d: %s", line, code, &errs)
		}
		rows, err := requests.ReadFile("ranked.csv")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(rows, func(a, b requests.Row) int { return cmp.Compare(a.Admit, b.Admit) })
		var order []int
		for i := range rows {
			order = append(order, rows[i].ID)
		}
		if !slices.Equal(order, c.want) {
			t.Errorf("replay %s: admitted in the order %v, want %v", line, order, c.want)
		}
	}
}
