package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/script"
	"github.com/replay-llm/replay/internal/terminal"
)

// Text output fits into the columns of a terminal, except with --wide.
func TestOutputFitsTerminals(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	for _, line := range []string{
		"trace requests.jsonl --trace-block-size 64",
		"trace requests.jsonl --trace-block-size 64 --gpu h100 --model llama-3.1-8b --prefill-workers 1 --decode-workers 2 --slo ttft=20ms,p99:itl=5ms",
		"trace requests.jsonl --trace-block-size 64 --report-json r.json --out run --digest",
		"concurrency sessions.jsonl --trace-block-size 64 --max-in-flight 2",
		"report run",
		"sweep grid.yaml",
		"sweep grid.yaml --gpu-cost 2 --grid tp=1,2 --grid workers=1,2 --trace requests.jsonl --trace sessions.jsonl",
		"sweep --trace requests.jsonl --set trace-block-size=64 --set gpu=h100 --grid model=llama-3.1-8b,llama-3.1-70b",
		"sweep --trace requests.jsonl --trace sessions.jsonl --set trace-block-size=64 --grid workers=1,2 --repeat 3",
		"plan requests.jsonl --trace-block-size 64 --slo p99:ttft=2s,p99:itl=40ms --resamples 4 --gpu-cost 2 --try block-size=32,64 --topology both",
		"bounds requests.jsonl --trace-block-size 64 --workers 2",
		"bounds requests.jsonl --trace-block-size 64 --prefill-workers 1 --decode-workers 2",
		"concurrency requests.jsonl --trace-block-size 64 --max-in-flight 1 --router-temperature 0 --workers 2 --router kv --out other",
		"diff run other",
		"explain run slowest 2",
		"fit --model llama-3.1-70b",
		"gpus",
		"models",
		"policies",
		"validate measured --deployment h100.yaml",
		"calibrate measured --holdout 0.5",
		"traces inspect requests.jsonl --trace-block-size 64",
		"traces inspect azure.csv",
		"plan requests.jsonl --trace-block-size 64 --slo ttft=20ms --workers 2 --gpu h100 --model llama-3.1-8b --resamples 4",
	} {
		if widest, errs := findWidest(t, line); utf8.RuneCountInString(widest) > terminal.Width || widest == "" {
			t.Errorf("$ replay %s\n%s\nis %d columns, want 1 to %d; %s", line, widest, utf8.RuneCountInString(widest), terminal.Width, errs)
		}
	}
	for _, line := range []string{
		"trace requests.jsonl --trace-block-size 64 --wide",
		"report run --wide",
		"sweep grid.yaml --wide",
		"models --wide",
		"bounds requests.jsonl --trace-block-size 64 --workers 2 --wide",
		"plan requests.jsonl --trace-block-size 64 --slo p99:ttft=2s,p99:itl=40ms --resamples 4 --max-workers 4 --gpu-cost 2 --wide",
	} {
		if widest, errs := findWidest(t, line); utf8.RuneCountInString(widest) <= terminal.Width {
			t.Errorf("$ replay %s\n%s\nis %d columns, want more than %d; %s", line, widest, utf8.RuneCountInString(widest), terminal.Width, errs)
		}
	}
}

// findWidest returns the widest line of a command's output, and its error text.
func findWidest(t *testing.T, line string) (widest, errs string) {
	command, err := script.Words(line)
	if err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	run(command.Args, strings.NewReader(""), &out, &complaints)
	for text := range strings.Lines(out.String()) {
		if text = strings.TrimRight(text, "\n"); utf8.RuneCountInString(text) > utf8.RuneCountInString(widest) {
			widest = text
		}
	}
	return widest, complaints.String()
}
