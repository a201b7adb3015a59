package main

import (
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/programtest"
	"github.com/replay-llm/replay/internal/excerpt"
)

// An error message that quotes a long text of the user is short, and is printed without delay.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	here, _ := os.Getwd()
	enterFiles(t, here)
	for name, text := range map[string]string{
		"value.jsonl":      `{"timestamp": 0, "input_length": "` + long + `", "output_length": 1, "hash_ids": []}`,
		"key.jsonl":        `{"` + long + `": 0}`,
		"text.jsonl":       long,
		"row.csv":          "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n0,m,1,1,2," + long + "\n",
		"key.yaml":         long + ": 2\n",
		"value.yaml":       "workers: " + long + "\n",
		"deploymentk.yaml": "gpu: h100\n" + long + ": llama-3.1-8b\n",
		"deploymentv.yaml": "gpu: " + long + "\nmodel: llama-3.1-8b\n",
		"scale.yaml":       "- {at: 1s, " + long + ": 2}\n",
		"faults.yaml":      "- {at: " + long + ", worker: 1, what: dies}\n",
		"budget.yaml":      "run: trace requests.jsonl --trace-block-size 64\nbudgets:\n  " + long + ": +2%\n",
		"grid.yaml":        "grid:\n  " + long + ": [kv]\n",
		"profile.json":     `{"` + long + `": 1}`,
		"policy.yaml":      "score: " + long + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"replay trace value.jsonl",
		"replay trace key.jsonl",
		"replay trace text.jsonl",
		"replay trace row.csv",
		"replay traces validate value.jsonl",
		"replay trace requests.jsonl --workers=LONG",
		"replay trace requests.jsonl --router=LONG",
		"replay trace requests.jsonl --trace-format=LONG",
		"replay trace requests.jsonl --columns=LONG=1",
		"replay trace requests.jsonl --slo=p99:LONG=1s",
		"replay trace requests.jsonl --LONG=1",
		`replay trace requests.jsonl --engine-args={"block_size":"LONG"}`,
		"replay trace requests.jsonl --gpu=LONG --model=LONG",
		"replay trace requests.jsonl --config=key.yaml",
		"replay trace requests.jsonl --config=value.yaml",
		"replay trace requests.jsonl --deployment=deploymentk.yaml",
		"replay trace requests.jsonl --deployment=deploymentv.yaml",
		"replay trace requests.jsonl --scale=scale.yaml",
		"replay trace requests.jsonl --faults=faults.yaml --workers=2",
		"replay trace requests.jsonl --router-policy=policy.yaml",
		"replay trace requests.jsonl --timing-profile=profile.json",
		"replay trace requests.jsonl --policy-process=:#LONG --workers=2",
		"replay trace requests.jsonl --policy-process=cat --workers=2",
		"replay trace requests.jsonl --policy-process=echo\tLONG",
		"replay generate o.jsonl --requests=9 --arrivals=LONG",
		"replay check budget.yaml",
		"replay sweep grid.yaml --trace requests.jsonl",
		"replay traces LONG",
		"replay help LONG",
		"replay gpus LONG",
	} {
		programtest.CheckShort(t, root.New, strings.ReplaceAll(line, "LONG", long), 1000) // error messages contain excerpts, and lists of accepted values
	}
	for _, line := range []string{
		"replay LONG",
		`replay trace requests.jsonl --engine-args={"LONG": 1}`,
		"replay trace requests.jsonl --out=LONG",
		"replay trace requests.jsonl --config=LONG",
	} {
		programtest.CheckShort(t, root.New, strings.ReplaceAll(line, "LONG", long), excerpt.Longest+len("replay: \n")) // error messages contain file names, and all keys
	}
}
