package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/programtest"
)

// withoutJSON returns the commands without --output json, and the reasons.
func withoutJSON() map[string]string {
	return map[string]string{
		"init":             "prints a deployment file",
		"schema":           "prints JSON",
		"generate":         "prints a trace; its --output is the law of answers",
		"traces":           "has commands below it, and does nothing itself",
		"traces convert":   "prints a trace",
		"traces sample":    "prints a trace",
		"traces merge":     "prints a trace",
		"traces scale":     "prints a trace; its --output is a factor of answers",
		"traces anonymize": "prints a trace",
		"ui":               "serves a page, and prints its address",
	}
}

// Every command that prints a result also prints it as JSON, with the same flag.
func TestOutputJSONEverywhere(t *testing.T) { programtest.CheckJSON(t, root.New, withoutJSON()) }

// Commands print one JSON document with --output json. The keys of the document are lower-case words that
// docs/outputs.md or replay schema report lists.
func TestOutputJSON(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	docs, err := os.ReadFile(here + "/../../docs/outputs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"trace requests.jsonl --trace-block-size 64 --out a",
		"concurrency requests.jsonl --trace-block-size 64 --max-in-flight 2 --out b",
		"plan requests.jsonl --trace-block-size 64 --slo p99:ttft=1s --max-workers 2 --resamples 2",
		"bounds requests.jsonl --trace-block-size 64", "sweep --trace requests.jsonl --set trace-block-size=64 --grid workers=1,2 --repeat 2", "sweep --trace requests.jsonl --set trace-block-size=64 --grid router=kvv",
		"fit --model llama-3.1-8b", "gpus", "models", "settings max_num_seqs", "policies",
		"report a", "report a b", "diff a b", "verify a", "explain a slowest 2", "explain a 0",
		"check budgets.yaml --update", "check budgets.yaml a",
		"traces inspect requests.jsonl --trace-block-size 64", "doctor requests.jsonl --trace-block-size 64", "traces validate requests.jsonl",
		"calibrate measured", "validate measured --timing-profile fitted.json", "version",
		"trace requests.jsonl --trace-block-size 64 --workers 2 --router kv --slo ttft=20ms,p99:e2e=1s,p98:itl=1s --window 0ms,1m --digest --retry 1",
		`trace requests.jsonl --trace-block-size 64 --prefill-workers 1 --decode-workers 1 --faults [{"at":1,"pool":"decode","worker":0,"what":"slow","factor":2}]`,
		`trace requests.jsonl --trace-block-size 64 --autoscale {"min":1,"max":2,"metrics":[{"metric":"in_flight","target":1}],"drain":{"timeout":"1s"}}`,
		"trace requests.jsonl --trace-block-size 64 --workers 2 --router kv --regret",
		"trace requests.jsonl --trace-block-size 64 --mode online",
		"trace " + here + "/../../testdata/traces/tasks.jsonl --workers 2 --until 10s",
	} {
		var out, errs bytes.Buffer
		code := run(append(strings.Fields(line), "--output", "json"), nil, &out, &errs)
		var document any
		if err := json.Unmarshal(out.Bytes(), &document); err != nil {
			t.Errorf("$ replay %s --output json: exit %d, %v\n%s%s", line, code, err, &out, &errs)
		}
		for _, key := range keysOf(document) {
			if !regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`).MatchString(key) {
				t.Errorf("$ replay %s --output json: key %q", line, key)
			}
		}
		checkDocumented(t, string(docs), line, document)
	}
}

// checkDocumented checks that the table of docs/outputs.md lists the top-level keys of a command, or names the report
// for them.
func checkDocumented(t *testing.T, docs, line string, document any) {
	t.Helper()
	words := strings.Fields(line)
	command := words[0]
	if command == "traces" {
		command += " " + words[1]
	}
	if command == "doctor" { // an alias
		command = "traces inspect"
	}
	row := regexp.MustCompile("(?m)^\\| `" + command + "` .*$").FindString(docs)
	if row == "" {
		t.Errorf("docs/outputs.md has no row of %s", command)
	}
	if list, ok := document.([]any); ok && len(list) > 0 {
		document = list[0]
	}
	top, _ := document.(map[string]any)
	for key := range top {
		isReport := strings.Contains(row, "of [the report](#the-report)")
		if !strings.Contains(row, "`"+key+"`") && !(isReport && isReportKey(t, key, top[key])) {
			t.Errorf("$ replay %s --output json: neither its row of docs/outputs.md nor replay schema report has %s", line, key)
		}
	}
}

// isReportKey reports whether the schema of reports has this key with the members of its value, or a pattern that
// matches the key.
func isReportKey(t *testing.T, key string, value any) bool {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run([]string{"schema", "report"}, nil, &out, &errs); code != 0 {
		t.Fatalf("replay schema report: exit %d\n%s", code, &errs)
	}
	var of struct {
		Properties        map[string]struct{ Properties map[string]any }
		PatternProperties map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &of); err != nil {
		t.Fatal(err)
	}
	if entry, ok := of.Properties[key]; ok {
		members, _ := value.(map[string]any)
		for member := range members {
			if entry.Properties != nil && entry.Properties[member] == nil {
				t.Errorf("replay schema report: %s has no member %s", key, member)
			}
		}
		return true
	}
	for pattern := range of.PatternProperties {
		if regexp.MustCompile(pattern).MatchString(key) {
			return true
		}
	}
	return false
}

// keysOf returns the keys of all objects in a document.
func keysOf(document any) []string {
	var keys []string
	switch d := document.(type) {
	case []any:
		for _, v := range d {
			keys = append(keys, keysOf(v)...)
		}
	case map[string]any:
		for key, v := range d {
			keys = append(append(keys, key), keysOf(v)...)
		}
	}
	return keys
}

// The JSON documents have the values of the tables.
func TestOutputJSONSaysTheSame(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	print := func(line string, want int, document any) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(strings.Fields(line), nil, &out, &errs); code != want {
			t.Fatalf("$ replay %s: exit %d, want %d: %s", line, code, want, &errs)
		}
		if document != nil {
			if err := json.Unmarshal(out.Bytes(), document); err != nil {
				t.Fatalf("$ replay %s: %v\n%s", line, err, &out)
			}
		}
	}
	print("trace requests.jsonl --trace-block-size 64 --out a", 0, nil)
	print("check budgets.yaml --update", 0, nil)
	print("trace requests.jsonl --trace-block-size 64 --speedup 4 --out fast", 0, nil)

	var check struct {
		Holds    bool
		Exceeded int
		Budgets  []struct {
			Metric   string
			Most     *float64
			Exceeded bool
		}
	}
	print("check budgets.yaml fast --output json", cli.ExitBudget, &check)
	if check.Holds || check.Exceeded == 0 || len(check.Budgets) != 5 || check.Budgets[0].Metric != "p99_ttft_ms" || !check.Budgets[0].Exceeded {
		t.Errorf("check: %+v", check)
	}

	var explain struct {
		Requests []struct {
			Request int
			E2E     float64 `json:"e2e_ms"`
			Ledger  map[string]float64
			HeldUp  []struct {
				Total float64 `json:"total_ms"`
			} `json:"held_up_by"`
		}
	}
	print("explain a slowest 2 --output json", 0, &explain)
	if len(explain.Requests) != 2 {
		t.Fatalf("explain: %+v", explain)
	}
	for _, q := range explain.Requests {
		sum := 0.0
		for _, ms := range q.Ledger {
			sum += ms
		}
		if math.Abs(sum-q.E2E) > 1e-9 || q.E2E <= 0 || len(q.HeldUp) == 0 {
			t.Errorf("explain: request %d: parts add up to %v of %v ms, held up by %d", q.Request, sum, q.E2E, len(q.HeldUp))
		}
	}

	report, err := os.ReadFile("a/report.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("a/report.json", append(report, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	var verify struct{ Wrong int }
	print("verify a --output json", cli.ExitBehaviour, &verify)
	if verify.Wrong == 0 {
		t.Errorf("verify: %+v", verify)
	}
}
