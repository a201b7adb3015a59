package options

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/plan"
)

const policyExamples = "../../../examples/policy-process/"

// examplePrograms returns the example router policies in programs, by folder. Each function returns the command that
// runs the program.
func examplePrograms() map[string]func(t *testing.T) string {
	compile := func(t *testing.T, name string, args ...string) string {
		t.Helper()
		program := filepath.Join(t.TempDir(), "policy")
		if out, err := exec.CommandContext(t.Context(), name, append(args[:len(args)-1:len(args)-1], "-o", program, args[len(args)-1])...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return program
	}
	return map[string]func(t *testing.T) string{
		"go":     func(t *testing.T) string { return compile(t, "go", "build", policyExamples+"go") },
		"python": func(t *testing.T) string { return optional.Python(t) + " " + policyExamples + "python/policy.py" },
		"rust":   func(t *testing.T) string { return compile(t, optional.Rust(t), "-O", policyExamples+"rust/policy.rs") },
	}
}

// A policy in a program routes each request like the equivalent policy file.
func TestProgramsEqualTheirTwins(t *testing.T) {
	workloads := []string{
		"workers=4" + synthetic, "workers=5 max-in-flight=40 seed=7" + closed, "workers=4 scale=testdata/scale.yaml" + synthetic,
		"workers=3 speedup=20 trace=../../../testdata/traces/prefix_tree.jsonl", "workers=8 speedup=16 until=10m trace=../../../testdata/traces/chat-hour.jsonl",
		"prefill-workers=3 decode-workers=4" + synthetic, "workers=4 engine=sglang" + synthetic, "workers=1" + synthetic,
	}
	for name, prepare := range examplePrograms() {
		t.Run(name, func(t *testing.T) {
			program, file := prepare(t), policyExamples+name+"/policy.yaml"
			for _, w := range workloads {
				want, got := place(t, w, plan.Setting{Name: policyFlag, Value: file}), place(t, w, plan.Setting{Name: processFlag, Value: program})
				if len(want) < 5 || !slices.Equal(want, got) {
					t.Errorf("%s: requests are not where the policy in the file places them", w)
				}
			}
		})
	}
}
