package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// cleanReport removes the values of a report that differ between runs, and the counts of dropped rows.
func cleanReport(text string) string {
	return regexp.MustCompile(`  "dropped_[^\n]*\n`).ReplaceAllString(clitest.CleanText(text), "")
}

// A trace of any format gives the same report as the Mooncake trace that it is converted to.
func TestFormatsReplayAsConverted(t *testing.T) {
	here, _ := os.Getwd()
	examples := filepath.Join(here, "..", "..", "testdata", "traces", "formats")
	for _, c := range []struct{ name, block string }{
		{"agentic_v2.jsonl", "64"}, {"azure_2024.csv", "512"}, {"bailian.jsonl", "16"}, {"burstgpt.csv", "512"},
		{"dynamo.jsonl", "16"}, {"servingsim_tokens.jsonl", "16"}, {"vidur_blocks.csv", "512"},
		{"vllm_bench.json", "512"}, {"weka.json", "64"},
	} {
		path := filepath.Join(examples, c.name)
		code, rows, errs := command("", "traces", "convert", path)
		if code != cli.ExitDone {
			t.Fatalf("%s: exit %d: %s", c.name, code, errs)
		}
		for _, mode := range [][]string{{"trace"}, {"concurrency", "--max-in-flight=2"}} {
			args := append(mode, "--output=json")
			code, got, errs := command("", append(args, path)...)
			if c.name == "weka.json" && mode[0] == "trace" {
				if code != cli.ExitRefused {
					t.Errorf("%s without arrivals: exit %d: %s", c.name, code, errs)
				}
				continue
			}
			_, want, wantErrs := command(rows, append(args, "-", "--trace-block-size="+c.block)...)
			if code != cli.ExitDone || cleanReport(got) != cleanReport(want) {
				t.Errorf("%s, %s: exit %d, report\n%s%s\nconverted\n%s%s", c.name, mode[0], code, got, errs, want, wantErrs)
			}
		}
	}
}

// Flags that supply missing properties of a file give the same workload in a replay and in a conversion to a Mooncake
// trace.
func TestLeftOpenAsConverted(t *testing.T) {
	here, _ := os.Getwd()
	examples := filepath.Join(here, "..", "..", "testdata", "traces", "formats")
	for _, c := range []struct{ name, flags string }{
		{"servegen", "--arrival-rate=2 --seed=7"}, {"servegen", "--servegen-span=600:1200"},
		{"vllm_custom.jsonl", "--tokens-per-byte=0.5 --output-len=20 --arrival-rate=3"},
		{"conversations.json", "--tokens-per-byte=0.5 --arrival-rate=3"}, {"openai_batch.jsonl", "--tokens-per-byte=0.5 --arrival-rate=3"},
		{"burstgpt.csv", "--jitter=second --zero-output=one"}, {"burstgpt.csv", "--session-mode=flat"},
		{"weka.json", "--arrival-rate=0.1"}, {"azure_2023.csv", "--assume-prefix=groups:2:0.5"},
		{"azure_mm.csv", "--image-tokens=300"}, {"bailian.jsonl", "--session-mode=chain"},
		{"azure_2024.csv", "--skip-bad=1"},
	} {
		path, flags := filepath.Join(examples, c.name), strings.Fields(c.flags)
		code, rows, errs := command("", append([]string{"traces", "convert", "--block-size=16", path}, flags...)...)
		if code != cli.ExitDone {
			t.Errorf("%s %s: exit %d: %s", c.name, c.flags, code, errs)
			continue
		}
		code, got, errs := command("", append([]string{"trace", "--output=json", path}, flags...)...)
		before, rest, found := strings.Cut(got, `, "text_lengths": "`) // the converted rows have exact lengths
		if _, after, _ := strings.Cut(rest, `"}`); found {
			got = before + "}" + after
		}
		_, want, wantErrs := command(rows, "trace", "--output=json", "-", "--trace-block-size=16")
		if code != cli.ExitDone || cleanReport(got) != cleanReport(want) {
			t.Errorf("%s %s: exit %d, report\n%s%s\nconverted\n%s%s", c.name, c.flags, code, got, errs, want, wantErrs)
		}
	}
}

// A custom CSV or JSONL file is the same workload to every command that reads traces.
func TestColumnsAsConverted(t *testing.T) {
	here, _ := os.Getwd()
	own := filepath.Join(here, "..", "..", "testdata", "traces", "own.csv")
	const columns = "--columns=arrival=time,input=prompt_tokens,output=completion_tokens"
	code, rows, errs := command("", "traces", "convert", own, columns)
	if code != cli.ExitDone || strings.Count(rows, "\n") != 5 {
		t.Fatalf("exit %d: %s%s", code, rows, errs)
	}
	converted := traceFile(t, "converted.jsonl", rows)
	for _, args := range [][]string{
		{"trace", "--output=json"}, {"concurrency", "--max-in-flight=2", "--output=json"},
		{"plan", "--slo=p99:ttft=1s"}, {"sweep", "--grid=workers=1,2", "--output=csv"},
	} {
		mine, theirs := append(args, own, columns), append(args, converted)
		if args[0] == "sweep" {
			mine, theirs = append(args, "--trace="+own, columns), append(args, "--trace="+converted)
		}
		code, got, errs := command("", mine...)
		_, want, _ := command("", theirs...)
		got = strings.ReplaceAll(strings.ReplaceAll(got, own, "FILE"), strings.TrimPrefix(columns, "--columns="), "")
		if want = strings.ReplaceAll(want, converted, "FILE"); code != cli.ExitDone || cleanReport(got) != cleanReport(want) {
			t.Errorf("%q: exit %d\n%s%s\nconverted\n%s", args, code, got, errs, want)
		}
	}
}

// A trace that was written as agentic_mooncake is the same workload as before.
func TestAgenticTarget(t *testing.T) {
	here, _ := os.Getwd()
	for _, name := range []string{"mooncake.jsonl", "azure_2023.csv", "servingsim.jsonl", "burstgpt.csv", "agentic_v2.jsonl"} {
		path := filepath.Join(here, "..", "..", "testdata", "traces", "formats", name)
		_, want, _ := command("", "traces", "convert", "--block-size=64", path)
		code, rows, errs := command("", "traces", "convert", "--block-size=64", "--to=agentic_mooncake", path)
		if code != cli.ExitDone {
			t.Errorf("%s: exit %d: %s", name, code, errs)
			continue
		}
		replays := [2]string{}
		for i, text := range []string{want, rows} {
			args := []string{"trace", "--output=json", "-"}
			if i == 0 {
				args = append(args, "--trace-block-size=64")
			}
			code, replays[i], errs = command(text, args...)
			if code != cli.ExitDone {
				t.Errorf("%s: exit %d: %s", name, code, errs)
			}
		}
		if clitest.CleanText(replays[0]) != clitest.CleanText(replays[1]) {
			t.Errorf("%s: as agentic_mooncake\n%s\nis replayed as\n%s, not as\n%s", name, rows, replays[1], replays[0])
		}
	}
}

// Parts of a trace that are anonymized one after the other get the same ids if they share an id map.
func TestIDMap(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	part := `{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[%]}` + "\n"
	var parts []string
	for _, ids := range []string{"900,901", "900,902"} {
		code, out, errs := command(strings.Replace(part, "%", ids, 1), "traces", "anonymize", "-", "--id-map=ids.csv")
		if code != cli.ExitDone {
			t.Fatalf("exit %d: %s", code, errs)
		}
		parts = append(parts, out)
	}
	if !strings.Contains(parts[0], "[0,1]") || !strings.Contains(parts[1], "[0,2]") {
		t.Errorf("%q, want ids 0,1 and then 0,2", parts)
	}
	if err := os.WriteFile("ids.csv", []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command(strings.Replace(part, "%", "1,2", 1), "traces", "anonymize", "-", "--id-map=ids.csv")
	if code != cli.ExitRefused || !strings.Contains(errs, "ids.csv:1:") {
		t.Errorf("exit %d: %s, want that the map is none", code, errs)
	}
}

// A generated workload gives the same report as the trace that replay generate writes with the same flags.
func TestGeneratedReplaysAsWritten(t *testing.T) {
	checkGeneratedReplays(t, "rate=5 requests=50 input=lognormal:mean=1000,sigma=0.8 output=200 turns=uniform:min=1,max=4 think=2 prefix=system:tokens=512")
	checkGeneratedReplays(t, "rate=1 requests=50 input=1000 output=20 agents=uniform:min=0,max=3 calls=2 tool=exponential:mean=0.5 fails=0.1 agent-prefix=system:tokens=512")
}

func checkGeneratedReplays(t *testing.T, text string) {
	t.Helper()
	flags := strings.Fields(text)
	made, generated := []string{"generate", "--seed=7"}, []string{"--seed=7", "--output=json"}
	for _, f := range flags {
		made, generated = append(made, "--"+f), append(generated, "--generate-"+f)
	}
	code, rows, errs := command("", made...)
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, mode := range [][]string{{"trace"}, {"concurrency", "--max-in-flight=2"}} {
		code, got, errs := command("", append(mode, generated...)...)
		_, want, _ := command(rows, append(mode, "-", "--seed=7", "--output=json")...)
		if code != cli.ExitDone || cleanReport(got) != cleanReport(want) {
			t.Errorf("%s: exit %d, report\n%s%s\nof the trace\n%s", mode[0], code, got, errs, want)
		}
	}
}

// A recorded run has the hash of each file of an input directory.
func TestDirectoryIsHashed(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	if code, _, errs := command("", "trace", "servegen", "--out=run"); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if code, _, errs := command("", "verify", "run", "--quiet"); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join("servegen", "chunk-3-trace.csv"), []byte("0,1,1,Poisson\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command("", "verify", "run", "--quiet")
	if want := "servegen/chunk-3-trace.csv"; code == cli.ExitDone || !strings.Contains(out+errs, want) {
		t.Errorf("another file: exit %d: %s%s, want a word on %s", code, out, errs, want)
	}
}

// run.json and report.json have the counts of rows that were not replayed.
func TestDroppedInRunDirectory(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	if code, _, errs := command("", "trace", "burst.csv", "--out", "dropped"); code != cli.ExitDone {
		t.Fatal(errs)
	}
	for file, want := range map[string]string{
		"run.json":    `"reason": "dropped_zero_output_requests",\s*"rows": 2`,
		"report.json": `"dropped_zero_output_requests": 2,`,
	} {
		text, err := os.ReadFile(filepath.Join("dropped", file))
		if err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: %v, want %s in\n%s", file, err, want, text)
		}
	}
}
