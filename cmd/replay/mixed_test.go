package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// cleanly runs a command that must succeed and returns its output without real times.
func cleanly(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.CleanText(string(printed(t, args)))
}

// A mix of deployments with equal settings prints the report of a pool of one kind, byte for byte.
func TestMixOfSameDeployments(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	text, err := os.ReadFile("mix/h100.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("again.yaml", text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, router := range []string{"round_robin", "kv"} {
		load := []string{"trace", "--input-tokens=3000", "--output-tokens=50", "--request-count=100", "--arrival-interval-ms=10", "--output=json", "--router", router}
		plain := cleanly(t, append(load, "--deployment=mix/h100.yaml", "--workers=5")...)
		mixed := cleanly(t, append(load, "--deployment=mix/h100.yaml", "--deployment=again.yaml", "--workers=h100:2,again:3")...)
		if mixed != plain {
			t.Errorf("%s: a mix of two that are alike reports\n%s\nnot\n%s", router, mixed, plain)
		}
	}
}

// A run directory and a timeline have the kind of each worker.
func TestKindsInOutputs(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	mix := []string{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=h100:1,l40s:1", "--model=llama-3.1-8b"}
	cleanly(t, append(mix, "--out=run", "--timeline=line.json")...)
	cleanly(t, "report", "run", "--html=run.html")
	for _, form := range []string{"--output=table", "--output=json"} {
		got := cleanly(t, "explain", "run", "0", "1", form)
		for _, kind := range []string{"h100", "l40s"} {
			if !strings.Contains(got, "("+kind+")") && !strings.Contains(got, `"worker_kind": "`+kind+`"`) {
				t.Errorf("explain %s names no %s:\n%s", form, kind, got)
			}
		}
	}
	for file, wants := range map[string][]string{
		"run/workers.json": {`"kind":"h100"`, `"kind":"l40s"`},
		"run/run.json":     {`"mix.0.name":"h100"`, `"mix.1.count":1`, `"mix.1.engine.blocks"`},
		"line.json":        {"worker 0 (h100)", "worker 1 (l40s)"},
		"run.html":         {"0 (h100)", "1 (l40s)", "l40s kv cache"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if got := strings.ReplaceAll(string(text), `": `, `":`); !strings.Contains(got, want) {
				t.Errorf("%s has no %q:\n%.2000s", file, want, got)
			}
		}
	}
}

// A journal of a sweep identifies a mix by the settings of its deployments, not by their names.
func TestJournalOfMix(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	sweep := []string{"sweep", "--trace=requests.jsonl", "--set=trace-block-size=64", "--deployment=mix/h100.yaml", "--deployment=mix/l40s-tp2.yaml",
		`--grid=workers="h100:1,l40s-tp2:2","h100:2,l40s-tp2:1"`, "--output=csv", "--journal=done.jsonl"}
	first := cleanly(t, sweep...)
	if again := cleanly(t, sweep...); again != first {
		t.Errorf("the same again is\n%s\nnot\n%s", again, first)
	}
	if err := os.WriteFile("mix/l40s-tp2.yaml", []byte("gpu: l4\nmodel: llama-3.1-8b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other := cleanly(t, sweep...); other == first || !strings.Contains(other, "h100 l4") {
		t.Errorf("with another deployment of that name:\n%s", other)
	}
	if i := slices.Index(strings.Split(first, "\n"), ""); i != 3 {
		t.Errorf("%d lines:\n%s", i, first)
	}
}

// A plan of a mix writes its kinds, GPUs and cost, and its journal has the settings of the deployments.
func TestPlanOfMix(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	args := []string{"plan", "--input-tokens=2000", "--output-tokens=20", "--request-count=200", "--arrival-interval-ms=100", "--slo=p99:ttft=500ms",
		"--deployment=mix/h100.yaml", "--deployment=mix/l40s-tp2.yaml", "--workers=h100:1,l40s-tp2:2", "--resamples=2", "--front=false", "--journal=done.jsonl", "--json", "--out=plan.html"}
	first := cleanly(t, args...)
	for _, want := range []string{`"kinds": "1 of h100, 2 of l40s-tp2"`, `"kinds": "1 of h100, 1 of l40s-tp2"`, `"gpus": 5`, `"gpus": 3`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%.3000s", want, first)
		}
	}
	page, err := os.ReadFile("plan.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GPU of l40s-tp2", "5 GPUs (3 workers, 1 of h100, 2 of l40s-tp2, 7.30 an hour)"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	args = append(args, "--overwrite")
	if again := cleanly(t, args...); again != first {
		t.Errorf("the same again is\n%s\nnot\n%s", again, first)
	}
	if err := os.WriteFile("mix/l40s-tp2.yaml", []byte("gpu: l4\nmodel: llama-3.1-8b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other := cleanly(t, args...); !strings.Contains(other, `"gpus": 3`) || strings.Contains(other, `"gpus": 5`) || other == first {
		t.Errorf("with another deployment of that name:\n%.3000s", other)
	}
}
