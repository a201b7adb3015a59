package docs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// The tables of docs/coming-from.md are those of the program; with -rewrite they are written.
func TestOtherToolTables(t *testing.T) {
	var tools []string
	rows := make(map[string]string)
	for _, f := range cli.OtherFlags() {
		for tool := range strings.SplitSeq(f.Tool, ",") {
			if !slices.Contains(tools, tool) {
				tools = append(tools, tool)
			}
			here := "none"
			if f.Here != "" {
				here = "`" + f.Here + "`"
			}
			rows[tool] += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, here, f.Note)
		}
	}
	text := read(t, "coming-from.md")
	want, _, _ := strings.Cut(text, "## ")
	want = strings.TrimRight(want, "\n") + "\n"
	for _, tool := range tools {
		want += "\n## " + tool + "\n\n| Flag | Here | Difference |\n| --- | --- | --- |\n" + rows[tool]
	}
	if text == want {
		return
	}
	if !*rewrite {
		t.Error("the tables of coming-from.md are not those of cli.OtherFlags: go test ./docs -rewrite")
	} else if err := os.WriteFile("coming-from.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
