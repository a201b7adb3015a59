package engines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// TestServerDefaults compares the defaults of an engine on a GPU with vLLM's engine arguments, for each release:
// testdata/vllm/defaults.jsonl.
func TestServerDefaults(t *testing.T) {
	file, err := os.Open("../../testdata/vllm/defaults.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rows++ {
		var row struct {
			Release string
			GPU     string
			Memory  float64 `json:"memory_gib"`
			Length  int     `json:"max_model_len"`
			Set     map[string]any
			Tokens  int `json:"max_num_batched_tokens"`
			Seqs    int `json:"max_num_seqs"`
			Block   int `json:"block_size"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		row.Set["scheduler_profile"] = releases.Nearest(row.Release)
		text, err := json.Marshal(row.Set)
		if err != nil {
			t.Fatal(err)
		}
		f := hardware.Fit{GPU: hardware.GPU{Name: row.GPU, MemoryGiB: row.Memory}, MaxLength: row.Length}
		a := onServer(t, string(text), &f)
		if a.MaxBatchedTokens != row.Tokens || a.MaxSeqs != row.Seqs || a.BlockTokens != row.Block {
			t.Errorf("%s: %d tokens, %d requests, blocks of %d", lines.Text(), a.MaxBatchedTokens, a.MaxSeqs, a.BlockTokens)
		}
	}
	if rows < 200 {
		t.Errorf("%d rows", rows)
	}
}

// onServer parses engine arguments for a GPU.
func onServer(t *testing.T, text string, f *hardware.Fit) engineargs.Args {
	a, err := engineargs.Parse([]byte(text), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unless := OnServer(&a, f, func(key string) bool { return engineargs.Gives([]byte(text), nil, key) })
	if a, err = engineargs.Parse([]byte(text), engineargs.Options{Unless: unless}); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestOnServer checks that the newest rules are the default, and checks the description of an engine's limits. Given
// settings win, and the reference and SGLang have separate settings.
func TestOnServer(t *testing.T) {
	f, err := hardware.ParseFit("h100/llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{}`:                                "8192 1024 16 vllm-0.33, its server's defaults on h100",
		`{"max_num_seqs":64}`:               "8192 64 16 vllm-0.33; its server's defaults on h100 are 1024 and 8192",
		`{"max_num_seqs":null}`:             "8192 0 16 vllm-0.33; its server's defaults on h100 are 1024 and 8192",
		`{"block_size":64}`:                 "8192 1024 64 vllm-0.33, its server's defaults on h100",
		`{"engine_type":"sglang"}`:          "8192 256 1 ",
		`{"scheduler_profile":"vllm"}`:      "8192 1024 16 vllm-0.33, its server's defaults on h100",
		`{"scheduler_profile":"reference"}`: "8192 256 64 ",
		`{"scheduler_profile":"reference","scheduler_rules":{"mixed_step":true}}`: "8192 1024 16 , its server's defaults on h100",
		`{"enable_chunked_prefill":false,"max_num_batched_tokens":null}`:          "0 1024 16 vllm-0.33",
	} {
		a := onServer(t, text, &f)
		a.PassTimes = timing.ParseSource("roofline:h100/llama-3.1-8b")
		got := fmt.Sprintf("%d %d %d %s", a.MaxBatchedTokens, a.MaxSeqs, a.BlockTokens, a.Profile)
		if !a.Rules.Reference() {
			got += describeLimits(&a)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestSGLangServer checks the default chunks and limit of requests of an SGLang server on a GPU, and given ones.
// Chunks are a multiple of the page size.
func TestSGLangServer(t *testing.T) {
	for _, c := range []struct {
		memory       float64
		text         string
		tokens       int
		chunk, seats int
	}{
		{15.9, `{"engine_type":"sglang"}`, 100_000, 2048, 2048},
		{39.4, `{"engine_type":"sglang"}`, 200_000, 4096, 2048},
		{79.6, `{"engine_type":"sglang"}`, 800_000, 8192, 3125},
		{79.6, `{"engine_type":"sglang","block_size":48}`, 800_000, 8160, 3125},
		{179, `{"engine_type":"sglang"}`, 2_000_000, 16384, 4096},
		{79.6, `{"engine_type":"sglang"}`, 2000, 8192, 1000},
		{179, `{"engine_type":"sglang","sglang":{"chunked_prefill_size":512,"max_running_requests":7}}`, 2_000_000, 512, 7},
	} {
		f := hardware.Fit{GPU: hardware.GPU{MemoryGiB: c.memory}, MaxLength: 131072}
		a, err := engineargs.Parse([]byte(c.text), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		unless := OnServer(&a, &f, func(key string) bool { return engineargs.Gives([]byte(c.text), nil, key) })
		unless = append(unless, Seats(&a, &f, c.tokens/a.BlockTokens)...)
		a, err = engineargs.Parse([]byte(c.text), engineargs.Options{Unless: unless})
		if err != nil || a.SGLang.ChunkTokens != c.chunk || a.SGLang.MaxRunning-c.seats > 1 || c.seats-a.SGLang.MaxRunning > 1 {
			t.Errorf("%+v: chunks of %d, %d seats, %v", c, a.SGLang.ChunkTokens, a.SGLang.MaxRunning, err)
		}
	}
}
