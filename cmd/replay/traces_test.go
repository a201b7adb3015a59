package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// command runs a command line and returns what it prints.
func command(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

const threeRows = `{"timestamp":10,"input_length":600,"output_length":3,"hash_ids":[5,6]}
{"timestamp":20,"input_length":600,"output_length":-3,"hash_ids":[5,7]}
{"timestamp":30,"input_length":600,"output_length":3,"hash_ids":[5,8]}
`

func traceFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDoctor checks that doctor prints the output of traces inspect.
func TestDoctor(t *testing.T) {
	path := traceFile(t, "a.jsonl", `{"timestamp":1,"input_length":20,"output_length":3,"hash_ids":[5]}`+"\n")
	_, inspected, _ := command("", "traces", "inspect", path)
	if code, out, errs := command("", "doctor", path); code != cli.ExitDone || out != inspected || out == "" {
		t.Errorf("exit %d\n%s%s, must be\n%s", code, out, errs, inspected)
	}
}

// Every command stops at a bad row. With --skip-bad it lists the row once, even if it reads the file several times.
func TestSkipBad(t *testing.T) {
	path := traceFile(t, "a.jsonl", `{"chat_id":1,"parent_chat_id":-1,"timestamp":1,"input_length":20,"output_length":3,"hash_ids":[5,6]}
{"chat_id":2,"parent_chat_id":-1,"timestamp":2,"input_length":20,"output_length":-3,"hash_ids":[5,7]}
{"chat_id":3,"parent_chat_id":-1,"timestamp":3,"input_length":20,"output_length":3,"hash_ids":[5,8]}
`)
	for _, args := range [][]string{
		{"inspect", path}, {"validate", path}, {"convert", path}, {"sample", path, "--head=5"}, {"scale", path, "--rate=2"},
		{"anonymize", path}, {"merge", path, path},
	} {
		args = append([]string{"traces"}, args...)
		code, out, errs := command("", args...)
		if code != cli.ExitRefused || !strings.Contains(out+errs, path+":2: output_length is -3, must be an integer >= 0") {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
		code, out, errs = command("", append(args, "--skip-bad")...)
		times := strings.Count(out+errs, "output_length is -3")
		want := 1
		if args[1] == "merge" { // both input files contain the row
			want = 2
		}
		if code != cli.ExitDone || times != want || !strings.Contains(out+errs, "1 bad rows") {
			t.Errorf("%q --skip-bad: exit %d, listed %d times, want %d\n%s%s", args, code, times, want, out, errs)
		}
	}
	if code, _, errs := command("", "traces", "inspect", path, "--skip-bad=0"); code != cli.ExitRefused {
		t.Errorf("exit %d: %s", code, errs)
	}
	plain := traceFile(t, "b.jsonl", threeRows)
	for _, args := range [][]string{{"traces", "inspect"}, {"traces", "validate"}, {"traces", "convert"}, {"trace"}, {"concurrency", "--max-in-flight=2"}} {
		code, _, errs := command("", append(args, plain, "--skip-bad=3")...)
		if code != cli.ExitRefused || !strings.Contains(errs, plain+": is mooncake, of which no row is skipped") {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	code, out, errs := command("", "traces", "validate", plain)
	if code != cli.ExitRefused || !strings.Contains(out, plain+":2: output_length is -3") || !strings.Contains(out, "2 requests, 1 bad rows") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// validate and bounds also print their result as JSON.
func TestJSONOfTables(t *testing.T) {
	path := traceFile(t, "a.jsonl", threeRows)
	code, out, errs := command("", "traces", "validate", path, "--output=json")
	var checked struct {
		Format     string
		Requests   int
		BadRows    int `json:"bad_rows"`
		Complaints []string
	}
	if err := json.Unmarshal([]byte(out), &checked); err != nil || code != cli.ExitRefused || checked.Format != "mooncake" ||
		checked.Requests != 2 || checked.BadRows != 1 || len(checked.Complaints) != 1 || !strings.HasPrefix(checked.Complaints[0], path+":2: output_length is -3") {
		t.Errorf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	good := traceFile(t, "b.jsonl", strings.ReplaceAll(threeRows, "-3", "3"))
	code, out, errs = command("", "bounds", good, "--workers=2", "--output=json")
	var bounds struct {
		Bounds []struct {
			Variant, Free string
			Old           []string            `json:"old_signals"`
			Age           float64             `json:"signal_age_ms"`
			TTFT          float64             `json:"mean_ttft_ms"`
			Times         map[string]*float64 `json:"times_ceiling"`
		}
	}
	err := json.Unmarshal([]byte(out), &bounds)
	if err != nil || code != cli.ExitDone || len(bounds.Bounds) != 9 {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	if free, last := bounds.Bounds[1], bounds.Bounds[8]; free.Variant != "round_robin" || free.Free != "endless cache" ||
		last.Variant != "ceiling" || !(last.TTFT > 0) || *last.Times["mean_ttft_ms"] != 1 || *free.Times["mean_ttft_ms"] != free.TTFT/last.TTFT {
		t.Errorf("%s", out)
	}
	if old := bounds.Bounds[5]; old.Variant != "kv_router" || old.Free != "" || !slices.Equal(old.Old, []string{"index"}) || old.Age != 1000 {
		t.Errorf("%s", out)
	}
}

// validate reports arrivals before time 0, for every format and unit. Dates are not reported.
func TestNegativeArrivals(t *testing.T) {
	for name, text := range map[string]string{
		"a.jsonl": strings.ReplaceAll(strings.ReplaceAll(threeRows, "-3", "3"), ":20,", ":-20,"),
		"b.csv":   "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,10,2\n-0.02,10,2\n0.3,10,2\n",
	} {
		path, line := traceFile(t, name, text), ":2: "
		if name == "b.csv" {
			line = ":3: "
		}
		code, out, errs := command("", "traces", "validate", path)
		if code != cli.ExitRefused || !strings.Contains(out, path+line+"arrival is -20 ms, must be >= 0") || !strings.Contains(out, "2 requests, 1 bad rows") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
	old := traceFile(t, "c.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n1969-11-16 18:15:46.5,120,33\n")
	if code, out, errs := command("", "traces", "validate", old); code != cli.ExitDone {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// An output file appears only when it is complete. An input file is never overwritten.
func TestTraceOutput(t *testing.T) {
	path := traceFile(t, "a.jsonl", strings.ReplaceAll(threeRows, "-3", "3"))
	out := filepath.Join(filepath.Dir(path), "b.jsonl.gz")
	if code, _, errs := command("", "traces", "convert", path, out, "--block-size=64"); code != cli.ExitDone || !strings.Contains(errs, "--trace-block-size 64") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, text, errs := command("", "traces", "convert", out, "--trace-block-size=64", "--block-size=512")
	if code != cli.ExitDone || !strings.HasSuffix(text, `{"timestamp":30,"input_length":600,"output_length":3,"hash_ids":[0,3]}`+"\n") {
		t.Errorf("exit %d: %s\n%s", code, errs, text)
	}
	before, _ := os.ReadDir(filepath.Dir(path))
	for _, args := range [][]string{
		{"convert", path, path}, {"convert", path, filepath.Join(path, "no", "b.jsonl")}, {"convert", path, "x", "y"}, {"convert"},
		{"convert", path, filepath.Join(filepath.Dir(path), "c.csv"), "--to=azure"},
		{"sample", path, filepath.Join(filepath.Dir(path), "c.jsonl"), "--from=1000"}, {"merge", path}, {"nothing"}, {},
	} {
		if code, out, errs := command("", append([]string{"traces"}, args...)...); code == cli.ExitDone || out != "" || strings.Count(errs, "\n") == 0 {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if after, _ := os.ReadDir(filepath.Dir(path)); len(after) != len(before) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
}

// A command that reads its input once accepts standard input like a file.
func TestTraceFromStdin(t *testing.T) {
	rows := strings.ReplaceAll(threeRows, "-3", "3")
	for _, args := range [][]string{{"inspect", "-"}, {"validate", "-"}, {"convert", "-"}, {"scale", "-", "--rate=2"}} {
		if code, out, errs := command(rows, append([]string{"traces"}, args...)...); code != cli.ExitDone || out == "" {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	if code, _, _ := command(rows, "traces", "sample", "-", "--head=1"); code != cli.ExitUsage {
		t.Errorf("sample of standard input: exit %d, want %d", code, cli.ExitUsage)
	}
}

// The same flags generate the same bytes. Invalid settings are usage errors.
func TestGenerateCommand(t *testing.T) {
	args := []string{"generate", "--arrivals=gamma:cv=2", "--rate=5", "--duration=1m", "--input=lognormal:mean=1000,sigma=0.8",
		"--output=uniform:min=10,max=90", "--turns=uniform:min=1,max=3", "--think=exponential:mean=2", "--prefix=tree:depth=2,branch=3,tokens=512"}
	code, first, errs := command("", args...)
	if code != cli.ExitDone || strings.Count(first, "\n") < 200 {
		t.Fatalf("exit %d, %d rows: %s", code, strings.Count(first, "\n"), errs)
	}
	if _, again, _ := command("", args...); again != first {
		t.Error("the same flags make another trace")
	}
	if _, other, _ := command("", append(args, "--seed=7")...); other == first {
		t.Error("another seed makes the same trace")
	}
	if code, out, errs := command(first, "traces", "validate", "-"); code != cli.ExitDone || !strings.Contains(out, " 0 bad rows") {
		t.Errorf("what is generated is not valid: exit %d\n%s%s", code, out, errs)
	}
	for _, wrong := range [][]string{
		{"--rate=5"}, {"--rate=5", "--requests=5", "--input=x", "--output=5"}, {"--requests=5", "--input=5", "--output=5"},
		{"--rate=5", "--requests=5", "--input=5", "--output=5", "more"}, {"--rate=5", "--requests=5", "--class=a:colour=2"},
		{"--rate=5", "--requests=5", "--input=5", "--class=a:input=5;output=5"},
		{"--rate=5", "--requests=5", "--input=5", "--output=5", "--tool=1"}, {"--rate=5", "--requests=5", "--class=a:input=5;output=5;agents=2;fails=x"},
		{"--rate=5", "--requests=5", "--input=5", "--output=5", "--agents=2", "--to=mooncake"},
	} {
		if code, out, errs := command("", append([]string{"generate"}, wrong...)...); code != cli.ExitUsage || out != "" {
			t.Errorf("%q: exit %d\n%s%s", wrong, code, out, errs)
		}
	}
	mix := []string{"generate", "--rate=5", "--requests=50", "--class=a:weight=3;input=9;output=1", "--class=b:input=7;output=2"}
	if code, out, errs := command("", mix...); code != cli.ExitDone || strings.Count(out, `"input_length":9`) < 25 || strings.Count(out, `"input_length":7`) < 4 {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

// Every command about traces rejects the rows that validate rejects, and counts skipped rows in the same way.
func TestTracesAgreeOnBadRows(t *testing.T) {
	good := strings.ReplaceAll(threeRows, "-3", "3")
	for name, text := range map[string]string{
		"early.jsonl":  strings.ReplaceAll(good, ":20,", ":-20,"),
		"empty.jsonl":  strings.ReplaceAll(good, `[5,7]`, `[]`),
		"before.jsonl": strings.ReplaceAll(strings.ReplaceAll(good, `{`, `{"session_id":"a",`), ":20,", ":5,"),
		"late.jsonl":   strings.ReplaceAll(good, ":20,", ":1e300,"),
		"early.csv":    "arrived_at,num_prefill_tokens,num_decode_tokens\n-0.1,10,2\n0.3,10,2\n0.4,10,2\n",
		"late.csv":     "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,10,2\n1e290,10,2\n0.3,10,2\n",
	} {
		path := traceFile(t, name, text)
		line := ":2: "
		if name == "late.csv" {
			line = ":3: "
		}
		for _, args := range [][]string{
			{"validate", path}, {"inspect", path}, {"convert", path}, {"sample", path, "--head=5"}, {"scale", path, "--rate=2"}, {"anonymize", path}, {"merge", path, path},
		} {
			code, out, errs := command("", append([]string{"traces"}, args...)...)
			if code != cli.ExitRefused || strings.Count(out+errs, path+line) != 1 {
				t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
			}
			if !strings.HasSuffix(name, ".csv") {
				continue
			}
			want := 1
			if args[0] == "merge" {
				want = 2
			}
			code, out, errs = command("", append(append([]string{"traces"}, args...), "--skip-bad")...)
			if code != cli.ExitDone || strings.Count(out+errs, path+line) != want || !strings.Contains(out+errs, "1 bad rows") {
				t.Errorf("%q --skip-bad: exit %d\n%s%s", args, code, out, errs)
			}
		}
	}
}

// A time that exceeds the range of the clock is rejected wherever a trace is read. The error has the bound.
func TestTimesAreBounded(t *testing.T) {
	good := strings.ReplaceAll(threeRows, "-3", "3")
	for name, text := range map[string]string{
		"a.jsonl": strings.ReplaceAll(good, ":30,", ":1e300,"),
		"b.jsonl": strings.ReplaceAll(strings.ReplaceAll(good, "{", `{"session_id":"a",`), `"timestamp":30,`, `"delay":1e300,`),
		"c.csv":   "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,120,33\n1e290,120,33\n",
	} {
		path := traceFile(t, name, text)
		code, _, errs := command("", "trace", path)
		if code != cli.ExitRefused || !strings.Contains(errs, path+":3: ") || !strings.Contains(errs, "1e") || !strings.Contains(errs, "at most 10000000000000 ms") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}

// TestTraceForOthers checks that a run exports its values as OpenMetrics text, and spans that form a trace of the
// same requests.
func TestTraceForOthers(t *testing.T) {
	path := traceFile(t, "a.jsonl", `{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[5,6]}
{"timestamp":250,"input_length":700,"output_length":4,"hash_ids":[5,7]}
`)
	dir := t.TempDir()
	metrics, spans := filepath.Join(dir, "a.prom"), filepath.Join(dir, "a.otlp.jsonl")
	code, _, errs := command("", "trace", path, "--metrics", metrics, "--otlp", spans)
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	text, err := os.ReadFile(metrics)
	if err != nil || !strings.Contains(string(text), "replay_completed_requests{run=\""+path+"\"} 2\n") || !strings.HasSuffix(string(text), "# EOF\n") {
		t.Errorf("%v: %s", err, text)
	}
	again := filepath.Join(dir, "again.jsonl")
	if code, _, errs = command("", "trace", path, "--otlp", again); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	first, _ := os.ReadFile(spans)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v: the same replay writes other spans", err)
	}
	ids := regexp.MustCompile(`"traceId":"[0-9a-f]+"`)
	for _, other := range [][]string{{"--block-size", "32"}, {"--arrival-speedup-ratio", "2"}} {
		if code, _, errs = command("", append([]string{"trace", path, "--otlp", again}, other...)...); code != cli.ExitDone {
			t.Fatalf("%s: exit %d: %s", other, code, errs)
		}
		if second, err := os.ReadFile(again); err != nil || bytes.Equal(ids.Find(first), ids.Find(second)) {
			t.Errorf("%s: %v: another replay has the same trace ids", other, err)
		}
	}
	code, out, errs := command("", "traces", "convert", spans)
	if code != cli.ExitDone || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"input_length":600,"output_length":3`) || !strings.Contains(out, `"timestamp":250,"input_length":700`) {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
	if code, _, errs = command("", "trace", path, "--stream", "--otlp", spans); code != cli.ExitUsage || !strings.Contains(errs, "--otlp is not supported with --stream") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
