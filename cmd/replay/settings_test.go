package main

import (
	"bytes"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
)

// The hidden command settings prints every declared setting, for the scripts of tools.
func TestSettingsAsJSON(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"settings"}, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var rows []struct{ Key, Flag, Kind, Unit, Engine string }
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != len(options.EngineRows()) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	found := map[string]bool{}
	for _, r := range rows {
		found[r.Key+" "+r.Flag+" "+r.Kind+" "+r.Unit+" "+r.Engine] = true
	}
	for _, want := range []string{"max_num_seqs max-num-seqs limit requests vllm", "sglang.page_size page-size int tokens sglang", "max_num_active_seqs  int  ", " tp int GPUs "} {
		if !found[want] {
			t.Errorf("no row %q", want)
		}
	}
}
