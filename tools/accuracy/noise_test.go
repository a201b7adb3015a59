package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The noise of a run is computed from its repeats. Without repeats the noise is the published noise.
func TestNoise(t *testing.T) {
	data := t.TempDir()
	f := &jointFit{folder: "runs", noise: "stated"}
	for i, ms := range []int{20, 21, 19} {
		name := []string{"a", "a.2", "a.3"}[i]
		rows := "request_id,output_tokens,server_input_tokens,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n"
		for k := range 30 {
			at := 1_000_000 * (k + 1)
			rows += fmt.Sprintf("%d,11,100,%d,%d,%d,ok\n", k, at, at+50_000, at+50_000+10_000*ms)
		}
		dir := filepath.Join(data, "runs", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "trace_data.csv"), []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := f.noiseOf(data, "a"); err != nil || !strings.HasPrefix(got, "3 runs: TPOT -5.0 to +5.0 % TTFT +0.0 to +0.0 %") {
		t.Errorf("%q, %v for TPOT of 19, 20 and 21 ms", got, err)
	}
	if got, err := f.noiseOf(data, "b"); err != nil || got != "stated" {
		t.Errorf("%q, %v for a run without repeats", got, err)
	}
}
