package options

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The expressions in docs/router.md for the scorers of llm-d's router route each request like these scorers.
func TestScorersEqualTheirTwins(t *testing.T) {
	text, err := os.ReadFile("../../../docs/router.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+-scorer)`( with `speculativeIndexing`)? \\| (`.*) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 8 {
		t.Fatalf("%d rows, want 8", len(rows))
	}
	dir := t.TempDir()
	for i, row := range rows {
		kind, expression := row[1], row[3]
		parameters, sent := "", ""
		if row[2] != "" {
			parameters, sent = "{speculativeIndexing: true}", "\nsent: {for: 2s}"
		}
		_, expression, _ = strings.Cut(expression, "`")
		expression, _, _ = strings.Cut(expression, "`")
		picker, policy := filepath.Join(dir, fmt.Sprint("picker", i, ".yaml")), filepath.Join(dir, fmt.Sprint("policy", i, ".yaml"))
		for name, content := range map[string]string{
			picker: fmt.Sprintf("kind: EndpointPickerConfig\nplugins:\n- {type: %s, parameters: %s}\n- type: max-score-picker\n", kind, parameters),
			policy: fmt.Sprintf("ties: any\nscorers:\n- score: %q%s\n", expression, sent),
		} {
			if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range []string{"workers=4" + synthetic, "workers=3 num-gpu-blocks=200 max-num-batched-tokens=512" + synthetic, "workers=4 speedup=50 trace=../../../testdata/traces/sessions.jsonl"} {
			want, got := place(t, w+" endpoint-picker="+picker), place(t, w+" router-policy="+policy)
			if !slices.Equal(want, got) {
				t.Errorf("%s: %s: placements differ", row[0], w)
			}
		}
	}
}
