package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// Every table and page of simulated numbers names its assumptions.
func TestAssumesOnEveryTable(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	const on = " --trace-block-size=64 --gpu=h100 --model=llama-3.1-8b"
	const set = " --set=trace-block-size=64 --set=gpu=h100 --set=model=llama-3.1-8b"
	if err := os.WriteFile("gpu.yaml", []byte("run: trace requests.jsonl"+on+"\nbudgets:\n  p99_ttft_ms: max 1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const sheets, scheduler = "pass times: measured operators of h100", "scheduler: vllm-0.19's own rules"
	for _, c := range []struct{ command, want, page string }{
		{"trace requests.jsonl" + on + " --out=a", sheets, ""},
		{"trace requests.jsonl" + on + " --workers=2 --out=b", sheets, ""},
		{"trace requests.jsonl" + on + " --workers=2 --faults=[{at:2ms,worker:1,what:dies,back:3s}] --out=f", sheets, ""},
		{"concurrency requests.jsonl --max-in-flight=2" + on, sheets, ""},
		{"sweep --trace=requests.jsonl --grid=workers=1,2 --out=sweep.html" + set, sheets, "sweep.html"},
		{"plan requests.jsonl --slo=p99:ttft=1s --resamples=0 --max-workers=2 --html=plan.html" + on, sheets, "plan.html"},
		{"bounds requests.jsonl --workers=2" + on, sheets, ""},
		{"fork requests.jsonl --at=5 --future=workers=2" + on, sheets, ""},
		{"fork a --at=5 --future=workers=2", sheets, ""},
		{"diff a b --top=1 --html=diff.html", sheets, "diff.html"},
		{"diff a b --repeat=2", sheets, ""},
		{"diff a/report.json b/report.json", sheets, ""},
		{"report a b", sheets, ""},
		{"report a/report.json", sheets, ""},
		{"report a --output=markdown", sheets, ""},
		{"report a --html=report.html", "", "report.html"},
		{"explain a slowest", sheets, ""},
		{"explain f --fault=1", sheets, ""},
		{"check gpu.yaml a", sheets, ""},
		{"check gpu.yaml a --markdown=check.md", sheets, "check.md"},
		{"calibrate measured", scheduler, ""},
		{"validate measured --deployment=h100.yaml --html=v.html", sheets, "v.html"},
	} {
		var out, errs bytes.Buffer
		switch code := run(strings.Fields(c.command), strings.NewReader(""), &out, &errs); code {
		case 0, cli.ExitDiffer:
		default:
			t.Errorf("replay %s: exit %d: %s", c.command, code, &errs)
			continue
		}
		if text := out.String(); !strings.Contains(text, "Assumes:") && c.want != "" || !strings.Contains(text, c.want) {
			t.Errorf("replay %s: no assumptions, want %q in\n%s", c.command, c.want, text)
		}
		if c.page == "" {
			continue
		}
		if page, err := os.ReadFile(c.page); err != nil || !strings.Contains(string(page), "measured operators of h100") {
			t.Errorf("replay %s: %v: no assumptions in %s", c.command, err, c.page)
		}
	}
}
