package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// readOtherFlags returns the flags that the sources of other tools declare, by tool: tools/otherflags.py writes them.
func readOtherFlags(t *testing.T) map[string][]string {
	text, err := os.ReadFile("testdata/otherflags.txt")
	if err != nil {
		t.Fatal(err)
	}
	flags, tool := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "# "); ok {
			tool = head[:strings.LastIndexByte(head, ' ')]
			continue
		}
		flags[tool] = append(flags[tool], strings.TrimPrefix(line, "--"))
	}
	return flags
}

// TestOtherFlagsExist holds that each tool has the flags that the table names, in one of the recorded releases.
func TestOtherFlagsExist(t *testing.T) {
	flags := readOtherFlags(t)
	for _, f := range OtherFlags() {
		for tool := range strings.SplitSeq(f.Tool, ",") {
			positive, isNegative := strings.CutPrefix(f.Name, "no-")
			if !slices.Contains(flags[tool], f.Name) && !(isNegative && slices.Contains(flags[tool], positive)) {
				t.Errorf("%s has no --%s", tool, f.Name)
			}
		}
	}
}
