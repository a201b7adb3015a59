package options

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/plan"
)

// examplePrograms returns the policies in programs that come as examples, by the file of the same policy. What cannot be
// compiled here is left out.
func examplePrograms(t *testing.T) map[string]string {
	t.Helper()
	const dir = "../../../examples/policy-process/"
	bin := t.TempDir()
	all := map[string]string{}
	for file, program := range map[string]struct {
		build []string
		run   string
	}{
		"go/policy.yaml":     {[]string{"go", "build", "-o", filepath.Join(bin, "picker"), dir + "go"}, filepath.Join(bin, "picker")},
		"python/policy.yaml": {[]string{"python3", "--version"}, "python3 " + dir + "python/policy.py"},
		"rust/policy.yaml":   {[]string{"rustc", "-O", "-o", filepath.Join(bin, "policy"), dir + "rust/policy.rs"}, filepath.Join(bin, "policy")},
	} {
		if _, err := exec.LookPath(program.build[0]); err != nil && program.build[0] != "go" {
			t.Logf("%s: %v", file, err)
			continue
		}
		if out, err := exec.CommandContext(context.Background(), program.build[0], program.build[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
		all[dir+file] = program.run
	}
	return all
}

// A policy in a program places every request where the same policy in a file does.
func TestProgramsEqualTheirTwins(t *testing.T) {
	workloads := []string{
		"workers=4" + synthetic, "workers=5 max-in-flight=40 seed=7" + closed, "workers=4 scale=testdata/scale.yaml" + synthetic,
		"workers=3 speedup=20 trace=../../../testdata/traces/prefix_tree.jsonl", "workers=8 speedup=16 until=10m trace=../../../testdata/traces/chat-hour.jsonl",
		"prefill-workers=3 decode-workers=4" + synthetic, "workers=4 engine=sglang" + synthetic, "workers=1" + synthetic,
	}
	for file, program := range examplePrograms(t) {
		for _, w := range workloads {
			want, got := place(t, w, plan.Setting{Name: policyFlag, Value: file}), place(t, w, plan.Setting{Name: processFlag, Value: program})
			if len(want) < 5 || !slices.Equal(want, got) {
				t.Errorf("%s: %s: requests are not where the policy in the file places them", strings.TrimPrefix(file, "../../../"), w)
			}
		}
	}
}
