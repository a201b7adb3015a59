package files

import (
	"os"
	"regexp"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// The documentation of each file lists all keys.
func TestPagesHaveAllKeys(t *testing.T) {
	for page, all := range map[string][]any{
		"autoscaling.md": {autoscale.Config{}, autoscale.Law{}, autoscale.Behavior{}, scalers{}},
		"policies.md":    {policy.Text{}, policy.TextHold{}, router.Age{}},
		"classes.md":     {loadgen.Class{}, policy.Admission{}, decisions{}, engines.Faults{}, faultEntry{}},
	} {
		text, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range all {
			for _, key := range yamlfile.Keys(of) {
				if !regexp.MustCompile("`" + key + "[`:]|(?m)(^|[{, ])" + key + ":").Match(text) {
					t.Errorf("%s does not have the key %s of %T", page, key, of)
				}
			}
		}
	}
}
