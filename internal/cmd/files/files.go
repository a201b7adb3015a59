// Package files reads the files that describe parts of a replay: faults, changes of size, autoscalers, router policies,
// admissions and classes. The keys of each are tags of the struct that it fills (package yamlfile); here are the rules that
// a tag cannot express.
//
// Read scale.go, faults.go, autoscale.go, policy.go and classes.go.
package files

import (
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
)

// rules are rules of a file by name.
type rules = map[string]yamlfile.Rule
