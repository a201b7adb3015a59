package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A trace of any format is replayed as the Mooncake trace that can be made of
// it.
func TestFormatsReplayAsConverted(t *testing.T) {
	here, _ := os.Getwd()
	examples := filepath.Join(here, "..", "..", "testdata", "traces", "formats")
	for _, c := range []struct{ name, block string }{
		{"agentic_v2.jsonl", "512"}, {"azure_2024.csv", "512"}, {"bailian.jsonl", "16"}, {"burstgpt.csv", "512"},
		{"dynamo.jsonl", "64"}, {"servingsim_tokens.jsonl", "16"}, {"vidur_blocks.csv", "512"},
		{"vllm_bench.json", "512"}, {"weka.json", "64"},
	} {
		path := filepath.Join(examples, c.name)
		code, rows, errs := command("", "traces", "convert", path)
		if code != exitDone {
			t.Fatalf("%s: exit %d: %s", c.name, code, errs)
		}
		for _, mode := range [][]string{{"trace"}, {"concurrency", "--max-in-flight=2"}} {
			args := append(mode, "--output=json")
			code, got, errs := command("", append(args, path)...)
			if c.name == "weka.json" && mode[0] == "trace" {
				if code != exitRefused {
					t.Errorf("%s without arrivals: exit %d: %s", c.name, code, errs)
				}
				continue
			}
			_, want, wantErrs := command(rows, append(args, "-", "--trace-block-size="+c.block)...)
			if code != exitDone || cleanText(got) != cleanText(want) {
				t.Errorf("%s, %s: exit %d, report\n%s%s\nconverted\n%s%s", c.name, mode[0], code, got, errs, want, wantErrs)
			}
		}
	}
}

// A generated workload is replayed as the trace that replay generate makes by
// the same flags.
func TestGeneratedReplaysAsWritten(t *testing.T) {
	flags := strings.Fields("rate=5 requests=50 input=lognormal:mean=1000,sigma=0.8 output=200 turns=uniform:min=1,max=4 think=2 prefix=system:tokens=512")
	made, generated := []string{"generate", "--seed=7"}, []string{"--seed=7", "--output=json"}
	for _, f := range flags {
		made, generated = append(made, "--"+f), append(generated, "--generate-"+f)
	}
	code, rows, errs := command("", made...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, mode := range [][]string{{"trace"}, {"concurrency", "--max-in-flight=2"}} {
		code, got, errs := command("", append(mode, generated...)...)
		_, want, _ := command(rows, append(mode, "-", "--seed=7", "--output=json")...)
		if code != exitDone || cleanText(got) != cleanText(want) {
			t.Errorf("%s: exit %d, report\n%s%s\nof the trace\n%s", mode[0], code, got, errs, want)
		}
	}
}

// A recorded run knows what was in each file of a directory.
func TestDirectoryIsHashed(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	if code, _, errs := command("", "trace", "servegen", "--out=run"); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if code, _, errs := command("", "verify", "run", "--quiet"); code != exitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join("servegen", "chunk-3-trace.csv"), []byte("0,1,1,Poisson\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command("", "verify", "run", "--quiet")
	if want := "servegen/chunk-3-trace.csv"; code == exitDone || !strings.Contains(out+errs, want) {
		t.Errorf("another file: exit %d: %s%s, want a word on %s", code, out, errs, want)
	}
}
