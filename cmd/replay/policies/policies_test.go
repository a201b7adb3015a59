package policies

import (
	"bytes"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/router/policy"
)

// The list has every name that expressions and autoscaler rules may use.
func TestListHasAllNames(t *testing.T) {
	var out bytes.Buffer
	if err := writeCatalogue(cli.Streams{Out: &out}); err != nil {
		t.Fatal(err)
	}
	_, rules, ok := strings.Cut(out.String(), "\nAUTOSCALER NAME")
	if !ok {
		t.Fatal("no names of autoscalers")
	}
	for _, f := range policy.Facts() {
		if !strings.Contains(out.String(), "\n"+f.Name+" ") {
			t.Errorf("no %s", f.Name)
		}
	}
	for _, f := range autoscale.Facts() {
		if !strings.Contains(rules, "\n"+f.Name+" ") {
			t.Errorf("no %s of an autoscaler", f.Name)
		}
	}
}
