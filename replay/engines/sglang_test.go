package engines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// TestSGLangDefaults compares the defaults of an SGLang engine on a GPU with those of SGLang's code:
// testdata/sglang/defaults.jsonl. The KV cache has half of the memory.
func TestSGLangDefaults(t *testing.T) {
	file, err := os.Open("../../testdata/sglang/defaults.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rows++ {
		var row struct {
			Model  string
			Memory float64 `json:"memory_gib"`
			TP     int     `json:"tp_size"`
			Page   int     `json:"page_size"`
			Ratio  float64 `json:"swa_full_tokens_ratio"`
			Chunk  int     `json:"chunked_prefill_size"`
			Share  float64 `json:"mem_fraction_static"`
			Tokens int
			Window int `json:"swa_tokens"`
			Seats  int `json:"max_running_requests"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		f, err := hardware.ParseFit(fmt.Sprintf("h100/%s?tp=%d", row.Model, row.TP))
		if err != nil {
			t.Fatal(err)
		}
		f.GPU.MemoryGiB = row.Memory
		text := fmt.Sprintf(`{"engine_type":"sglang","block_size":%d,"sglang":{"swa_full_tokens_ratio":%g}}`, row.Page, row.Ratio)
		a := onServer(t, text, &f)
		f = OnEngine(f, &a)
		share := ServerShare(&a, &f)
		tokens := int(f.GPU.Memory()/2/f.Budget().PerToken) / row.Page * row.Page
		window := 0
		if a.SGLang.PoolWindow() > 0 {
			window = sglang.WindowPages(tokens, row.Page, a.SGLang.PoolShare()) * row.Page
		}
		seats := Seats(&a, &f, tokens/row.Page)[0].Value
		if a.SGLang.ChunkTokens != row.Chunk || share != row.Share || tokens != row.Tokens || window != row.Window || seats != fmt.Sprint(row.Seats) {
			t.Errorf("%s: chunks of %d, %g of the memory, %d tokens and %d, %s requests", lines.Text(), a.SGLang.ChunkTokens, share, tokens, window, seats)
		}
	}
	if rows < 100 {
		t.Errorf("%d rows", rows)
	}
}
