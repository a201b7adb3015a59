package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
)

// Flags of other tools work, or are answered with flags that there are.
func TestFlagsOfOtherTools(t *testing.T) {
	trace, _, err := root.New(cli.Streams{}, nil).Find([]string{"trace"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cli.OtherFlags() {
		for word := range strings.FieldsSeq(f.Here) {
			word, _, _ = strings.Cut(word, "=")
			name, isFlag := strings.CutPrefix(word, "--")
			if own := trace.Flags().Lookup(name); isFlag && (own == nil || own.Name != name) {
				t.Errorf("--%s: trace has no --%s", f.Name, name)
			}
		}
		own := trace.Flags().Lookup(f.Name)
		if works := f.Here != "" && f.Note == ""; works {
			if own == nil || "--"+own.Name != f.Here {
				t.Errorf("--%s is not taken as %s", f.Name, f.Here)
			}
			continue
		}
		var out, errs bytes.Buffer
		if code := run([]string{"trace", "requests.jsonl", "--" + f.Name + "=5"}, nil, &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "--"+f.Name+" is a flag of ") || !strings.Contains(errs.String(), f.Here) {
			t.Errorf("--%s: exit %d: %s", f.Name, code, &errs)
		}
	}
}

// A command line of other tools gives what the same one in own words gives.
func TestOtherNames(t *testing.T) {
	here := printed(t, strings.Fields("trace --input-tokens 100 --output-tokens 20 --request-count 10 --gpu h100 --model llama-3.1-8b --tp 2 --seed 3 --output json"))
	for _, line := range []string{
		"trace --isl 100 --osl 20 --request-count 10 --gpu h100 --model llama-3.1-8b --tensor-parallel-size 2 --random-seed 3 --output json",
		"trace --random-input-len 100 --random-output-len 20 --num-prompts 10 --gpu h100 --model-path llama-3.1-8b --tp-size 2 --seed 3 --output json",
	} {
		if there := printed(t, strings.Fields(line)); clitest.CleanText(string(there)) != clitest.CleanText(string(here)) {
			t.Errorf("%s:\n%s\nwant\n%s", line, there, here)
		}
	}
}
