package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// GuideLLM reports before release 0.4, with all fields in the row, can be read.
func TestOldReports(t *testing.T) {
	var all []string
	for _, row := range []string{
		`{"input_metrics":{"text_tokens":600},"output_metrics":{"text_tokens":7},"info":{"timings":{"request_start":%v,"request_end":%v}}}`,
		`{"prompt_tokens":600,"output_tokens":7,"start_time":%v,"end_time":%v}`,
	} {
		text := `{"benchmarks":[{"requests":{"successful":[` + fmt.Sprintf(row, 1.5, 3) + "," + fmt.Sprintf(row, 2.25, 4) + `]}}]}`
		w, err := Read(strings.NewReader(text), "r.json", formats.Options{Format: "guidellm", TraceBlock: 256})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dump(w))
	}
	if all[0] != all[1] || strings.Count(all[0], "in=600 out=7") != 2 {
		t.Errorf("%q, want two requests twice", all)
	}
}
