package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program writes a program that always prints the same report.
func program(t *testing.T, name, report string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+report+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// AISimulate and replay get the same cluster, and the table contains both reports. Reports with different numbers of
// requests are rejected.
func TestCompare(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := program(t, "theirs", `{"completed_requests":7,"prefix_cache_reused_ratio":0.5,"mean_ttft_ms":100,"median_ttft_ms":50,"p99_ttft_ms":900,"mean_tpot_ms":10,"median_tpot_ms":8}`)
	ours := program(t, "ours", `{"completed_requests":7,"prefix_cache_reused_ratio":0.55,"mean_ttft_ms":90,"median_ttft_ms":50,"p99_ttft_ms":900,"mean_tpot_ms":10,"median_tpot_ms":8}`)
	var out strings.Builder
	s := settings{program: theirs, binary: ours, trace: trace, pairs: 1}
	if err := s.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| round robin | prefix-cache hit rate | 0.500 | 0.550 | +10.0 % |", "|  | mean TTFT (ms) | 100.0 | 90.0 | -10.0 % |", "| KV router |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nhas no %s", out.String(), want)
		}
	}
	s.binary = program(t, "other", `{"completed_requests":8}`)
	if err := s.run(context.Background(), &out); err == nil || !strings.Contains(err.Error(), "8 requests here, 7 there") {
		t.Error(err)
	}
	s.program = filepath.Join(t.TempDir(), "none")
	if err := s.run(context.Background(), &out); !errors.Is(err, errNoPeer) {
		t.Error(err)
	}
}

// AISimulate gets the cluster of the table and the router of the row.
func TestWriteConfig(t *testing.T) {
	s := settings{trace: "day.jsonl"}
	text := s.writeConfig(listRouters()[1])
	for _, want := range []string{`paths: ["day.jsonl"]`, "replicas: 8", "max_batched_tokens: 8192, max_sequences: 1024", "block_size: 64", "blocks: 6765", "policy: kv_router"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nhas no %s", text, want)
		}
	}
}
