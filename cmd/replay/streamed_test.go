package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rows that go to their file as requests finish are those of a trace that is kept, byte for byte, in every format, with
// where the time of requests went and who met the objectives; so are the report, with exact quantiles, and the digest.
func TestStreamedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	for _, of := range [][2]string{{"chat-hour", "parquet"}, {"chat-hour", "csv"}, {"chat-hour", "jsonl"}, {"sessions", "csv"}} {
		format := of[1]
		trace := filepath.Join("..", "..", "testdata", "traces", of[0]+".jsonl")
		var files, reports [2]string
		for i, more := range [][]string{nil, {"--stream", "--quantiles", "exact"}} {
			path := filepath.Join(dir, "rows."+format)
			args := append([]string{
				"trace", trace, "--workers", "4", "--router", "kv", "--requests", path, "--digest", "--slo", "ttft=60ms,p99:tpot=50ms", "--output", "json",
			}, more...)
			var out, errs bytes.Buffer
			if code := run(args, strings.NewReader(""), &out, &errs); code != 0 {
				t.Fatalf("%s: exit %d: %s", format, code, &errs)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[i] = string(text)
			for line := range strings.Lines(out.String()) {
				if !strings.Contains(line, "wall_time_ms") && !strings.Contains(line, "processed_") {
					reports[i] += line
				}
			}
		}
		if files[0] != files[1] {
			t.Errorf("%s: %d bytes of rows, want the %d of the trace that is kept", format, len(files[1]), len(files[0]))
		}
		if reports[0] != reports[1] {
			t.Errorf("%s: the report is\n%s\nwant\n%s", format, reports[1], reports[0])
		}
	}
}
