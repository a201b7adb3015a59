package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// readOtherFlags returns the flags that the sources of other tools declare, by tool. tools/otherflags.py writes one
// of its input files, and record.py of dropin writes the files of vLLM and SGLang.
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

// TestOtherFlagsExist checks that each flag in the table exists in a recorded release of its tool.
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
