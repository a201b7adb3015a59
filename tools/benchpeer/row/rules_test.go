package row_test

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// The two runs of a row differ only in rules and pass times.
func TestRulesTable(t *testing.T) {
	titles := map[string]bool{}
	for _, r := range row.RulesTable() {
		kind, _, _ := strings.Cut(r.Title, ": ")
		if titles[r.Title] || kind != map[bool]string{true: "sglang rules", false: "vllm rules"}[r.SGLang] && kind != "windows" && kind != "threads" {
			t.Errorf("%q is there twice, or has another kind", r.Title)
		}
		titles[r.Title] = true
		want := 2.5
		switch {
		case r.Windows != "":
			want = 2
		case r.Threads && r.Router == "kv":
			want = 0.8
		case r.Threads:
			want = 1 / 1.8
		case r.Calibrated: // a queue forms
			want = 4
		case r.AgainstVLLM:
			want = 3
		}
		if r.Simulation != want {
			t.Errorf("%s: %v times, want %v", r.Title, r.Simulation, want)
		}
	}
	all := row.RulesTable()
	for i, want := range map[int]string{
		0: "trace T --trace-block-size 512 --workers=8 --block-size=64 --num-gpu-blocks=6922 --max-num-seqs=1024 --max-num-batched-tokens=8192 --router=kv" +
			" --scheduler-profile=vllm --gpu=h100 --model=llama-3.1-8b",
		7: "trace T --trace-block-size 512 --workers=8 --speedup=4 --block-size=16 --num-gpu-blocks=38273 --max-num-seqs=128 --max-num-batched-tokens=2048 --router=kv" +
			" --scheduler-profile=vllm --timing-profile=P",
		8: "concurrency --input-tokens 1024 --output-tokens 128 --request-count 131072 --max-in-flight 64 --workers=1 --block-size=64 --num-gpu-blocks=6922" +
			" --max-num-seqs=1024 --max-num-batched-tokens=8192 --scheduler-profile=vllm --gpu=h100 --model=llama-3.1-8b",
		10: "concurrency --input-tokens 1024 --output-tokens 128 --request-count 16384 --max-in-flight 64 --workers=1 --block-size=64 --num-gpu-blocks=200000 --engine=sglang",
		12: "trace T --trace-block-size 512 --workers=8 --block-size=64 --num-gpu-blocks=6922 --router=kv --engine=sglang --gpu=h100 --model=llama-3.1-8b",
		15: "trace T --trace-block-size 512 --workers=8 --router=kv --gpu=h100 --model=llama-4-scout --tp=4",
		17: "trace T --trace-block-size 512 --workers=256 --router=round_robin --threads=2",
	} {
		if got := strings.Join(append(all[i].Args("T"), all[i].Own("P")...), " "); got != want {
			t.Errorf("%s: arguments\n%s, want\n%s", all[i].Title, got, want)
		}
	}
}
