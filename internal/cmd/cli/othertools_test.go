package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// readOtherFlags returns the flags that the sources of other tools declare, by tool. tools/otherflags.py writes one file, and
// record.py of dropin the files of the two servers.
func readOtherFlags(t *testing.T) map[string][]string {
	flags := map[string][]string{}
	for path, tool := range map[string]string{
		"testdata/otherflags.txt": "", "../dropin/testdata/vllm-0.33.0.txt": "vllm serve", "../dropin/testdata/sglang-0.5.23.txt": "sglang.launch_server",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if head, ok := strings.CutPrefix(line, "# "); ok {
				tool = head[:strings.LastIndexByte(head, ' ')]
				continue
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "--"), " ")
			flags[tool] = append(flags[tool], name)
		}
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
