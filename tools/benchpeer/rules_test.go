package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Rows of engine rules run only this program, alternately with both rules.
func TestRules(t *testing.T) {
	for _, c := range []struct{ times, want, verdict string }{
		{"20 7 8 7", "| 20 ms / 8 ms | 2.50x [2.50x–2.50x] | ≤ 2.5x |", "| ok |"},
		{"21 7 8 7", "| 21 ms / 8 ms | 2.63x [2.63x–2.63x] | ≤ 2.5x |", "| MISSED |"},
		{"20 7 8 6", "| 2.50x [2.50x–2.50x] |", "| MISSED: not the same requests |"},
	} {
		t.Run(c.times, func(t *testing.T) {
			dir, say := t.TempDir(), strings.Fields(c.times)
			binary := script(t, dir, "ours", `
if tail -n 1 "$(dirname "$0")/calls" | grep -q -e --scheduler-profile=reference; then say `+say[2]+" "+say[3]+`; else say `+say[0]+" "+say[1]+`; fi`)
			t.Chdir("../..")
			var out, errs bytes.Buffer
			code := run([]string{"-only", "vllm rules: synthetic.*block 64", "-pairs", "2", "-binary", binary, "-peer", filepath.Join(dir, "none")}, &out, &errs)
			if wantCode := min(1, len(c.verdict)-len("| ok |")); code != wantCode {
				t.Errorf("exit %d, want %d: %s", code, wantCode, &errs)
			}
			if got := out.String(); !strings.Contains(got, c.want) || !strings.Contains(got, c.verdict) || strings.Contains(got, "skipped") {
				t.Errorf("no %q or %q in\n%s", c.want, c.verdict, got)
			}
			if n := strings.Count(errs.String(), "own rules: simulation"); n != 3 {
				t.Errorf("%d runs by own rules, want 3:\n%s", n, &errs)
			}
		})
	}
}
