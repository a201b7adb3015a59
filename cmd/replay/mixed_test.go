package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// cleanly runs a command that must succeed and returns what it prints, but for real times.
func cleanly(t *testing.T, args ...string) string {
	t.Helper()
	lines := strings.Split(string(printed(t, args)), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// A mix of deployments that say the same prints the report of the plain pool, byte by byte.
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

// A run directory and a timeline say of which kind each worker is.
func TestKindsInOutputs(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	mix := []string{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=h100:1,l40s:1", "--model=llama-3.1-8b"}
	cleanly(t, append(mix, "--out=run", "--timeline=line.json")...)
	cleanly(t, "report", "run", "--html=run.html")
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

// A journal of a sweep knows a mix by what its deployments say, not by their names.
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
