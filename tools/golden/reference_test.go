package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/internal/reference"
)

// Every report and every request equals the reference's, number for number.
func TestReference(t *testing.T) {
	cases, err := reference.Load(filepath.Join("../..", kept))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 90 {
		t.Fatalf("%d cases, want at least 90", len(cases))
	}
	requests := 0
	for i := range cases {
		c := &cases[i]
		if _, kept, err := c.Requests(); err != nil {
			t.Fatal(err)
		} else if kept {
			requests++
		}
		t.Run(c.Name, func(t *testing.T) {
			for _, complaint := range checkInProcess(context.Background(), c) {
				t.Error(complaint)
			}
		})
	}
	if requests < 20 {
		t.Errorf("single requests were compared in %d cases, want at least 20", requests)
	}
}

// checkInProcess reports a case with the results of another case as different.
func TestCheckSeesDifferences(t *testing.T) {
	cases, err := reference.Load(filepath.Join("../..", kept))
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		c := &cases[i]
		if c.Name != "vllm-1w-burst" {
			continue
		}
		c.Args = append(c.Args, "--arrival-speedup-ratio", "2")
		if complaints := checkInProcess(context.Background(), c); len(complaints) < 10 {
			t.Errorf("a trace at twice the speed: %d complaints, want at least 10: %q", len(complaints), complaints)
		}
		return
	}
	t.Error("no case vllm-1w-burst")
}
