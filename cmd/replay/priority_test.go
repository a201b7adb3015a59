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

// If requests have priorities, they are admitted in the order of the field that the command line names. A row without
// the field has priority 0.
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

// The priorities of classes decide which requests are preempted. Requests 0 and 2 are long, 1 and 3 are short. vLLM
// preempts if no KV block is free. SGLang preempts if no seat is free and priorities differ by more than a threshold.
func TestClassesPreempt(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	const (
		vllm   = "--scheduler-profile vllm --num-gpu-blocks 8 --scheduling-policy "
		sglang = "--engine sglang --num-gpu-blocks 100 --max-running-requests 2 "
		least  = sglang + "--enable-priority-scheduling --schedule-low-priority-values-first "
	)
	for _, c := range []struct {
		classes, words string
		want           []int // requests that lost places
	}{
		{"shortfirst.yaml", vllm + "fcfs", []int{1, 2, 3}},
		{"shortfirst.yaml", vllm + "priority", []int{0, 2}},
		{"longfirst.yaml", vllm + "priority", []int{1, 3}},
		{"shortfirst.yaml", sglang, nil},
		{"shortfirst.yaml", least, []int{0}},
		{"longfirst.yaml", least, []int{1}},
		{"longfirst.yaml", sglang + "--enable-priority-scheduling", []int{0}}, // the highest value is the most urgent
		{"shortfirst.yaml", least + "--priority-scheduling-preemption-threshold 20", nil},
		{"shortfirst.yaml", least + "--disable-priority-preemption", nil},
	} {
		var errs bytes.Buffer
		line := "trace pressed.jsonl --trace-block-size 64 --block-size 64 --requests pressed.csv --classes " + c.classes + " " + c.words
		if code := run(strings.Fields(line), strings.NewReader(""), &bytes.Buffer{}, &errs); code != 0 {
			t.Fatalf("replay %s: exit %d: %s", line, code, &errs)
		}
		rows, err := requests.ReadFile("pressed.csv")
		if err != nil {
			t.Fatal(err)
		}
		var lost []int
		for i := range rows {
			if rows[i].Preemptions > 0 {
				lost = append(lost, rows[i].ID)
			}
		}
		if !slices.Equal(lost, c.want) {
			t.Errorf("replay %s: %v lost their places, want %v", line, lost, c.want)
		}
	}
}
