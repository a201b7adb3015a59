// Package files reads files that describe parts of a replay: faults, changes of size, autoscalers, router policies,
// admissions and classes.
//
// The keys of a file are struct tags of the value that it is read into (package yamlfile). Package files has the
// rules that tags cannot express.
//
// Read scale.go, faults.go, autoscale.go, policy.go and classes.go.
package files

import (
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
)

// rules are the rules of a file, by name.
type rules = map[string]yamlfile.Rule

// Shapes returns the JSON Schemas of the files, by name.
func Shapes() map[string]schema.Shape {
	faults := newFaultFile("", true)
	return map[string]schema.Shape{
		"autoscaler": newScalerFile("").Shape(scalers{}, "scaler"),
		"policy":     newPolicyFile("").Shape(policy.Text{}, ""),
		"admission":  newAdmissionFile("").Shape(policy.Admission{}, ""),
		"faults":     schema.AnyOf(faults.Shape([]faultEntry{}, ""), faults.Shape(engines.Faults{}, "")),
		"scale":      new(yamlfile.File).Shape([]scaleEvent{}, ""),
		"classes":    newClassFile("").Shape([]loadgen.Class{}, ""),
	}
}
