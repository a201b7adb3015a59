package options

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// fillAdmission enters into spec which requests are held back or turned away.
func (o *Options) fillAdmission(spec *replay.Spec) error {
	path := o.Cluster.admission
	if path == "" {
		return nil
	}
	if o.IsLive() || o.IsCluster() {
		return o.Only("admission", "on the logical clock")
	}
	text, err := os.ReadFile(path)
	if err == nil {
		spec.Admission, err = ParseAdmission(path, text)
	}
	if err != nil {
		return fmt.Errorf("--admission: %w", err)
	}
	return nil
}

// ParseAdmission reads which requests are held back or turned away (docs/policies.md). path is
// what errors call it, and what it is named after where it has no name.
func ParseAdmission(path string, text []byte) (*policy.Admission, error) {
	f := &policyFile{yamlFile: yamlFile{path}}
	body, err := f.readBody(text, "admission")
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	a := &policy.Admission{Name: strings.TrimSuffix(base, filepath.Ext(base))}
	seen, err := f.readKeys(body, "an admission",
		yamlKey{"name", func(n ast.Node) error { return f.readName(n, &a.Name) }},
		yamlKey{"rules", func(n ast.Node) error {
			return f.readList(n, "rules, as - shed: min(requests) > 32", func(item ast.Node) error { return f.readRule(item, a) })
		}})
	if err == nil && !slices.Contains(seen, "rules") {
		err = f.errorAt(body, "an admission without rules, which lets everybody in")
	}
	return a, err
}

// readRule reads a rule of an admission.
func (f *policyFile) readRule(item ast.Node, a *policy.Admission) error {
	var keys []yamlKey
	for d := router.Accept; d <= router.Shed; d++ {
		keys = append(keys, yamlKey{d.String(), func(n ast.Node) error {
			rule := policy.AdmissionRule{Decision: d}
			err := f.readExpression(n, &rule.When, policy.CheckRule)
			a.Rules = append(a.Rules, rule)
			return err
		}})
	}
	seen, err := f.readKeys(item, "a rule", keys...)
	if err == nil && len(seen) != 1 {
		err = f.errorAt(item, "a rule with %s, want a rule for each", strings.Join(seen, " and "))
	}
	return err
}
