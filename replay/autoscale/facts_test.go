package autoscale

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/autoscaling.md has what rules may read.
func TestFactsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/autoscaling.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ruleFacts() {
		if row := fmt.Sprintf("| `%s` | %s |", f.Name.Name, f.help); !strings.Contains(string(text), row) {
			t.Errorf("no row %s", row)
		}
	}
}
