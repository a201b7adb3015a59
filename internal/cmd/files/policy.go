package files

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// policyFile reads a file with a router policy (docs/policies.md).
type policyFile struct {
	yamlfile.File
	text policy.Text
}

// baseOf returns the name of a file without its folder and extension.
func baseOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// ParsePolicy parses a router policy.
func ParsePolicy(path string, text []byte) (*policy.Text, error) {
	f := newPolicyFile(path)
	body, err := f.ReadBody(text, "router policy")
	if err != nil {
		return nil, err
	}
	seen, err := f.Read(body, "a router policy", &f.text)
	if err != nil {
		return nil, err
	}
	return &f.text, f.PlaceError(body, f.checkWhole(seen))
}

// newPolicyFile returns a policyFile with its rules.
func newPolicyFile(path string) *policyFile {
	f := &policyFile{yamlfile.File{Path: path}, policy.Text{Name: baseOf(path), Picker: policy.TakeHighest}}
	f.Rules = rules{
		"name": yamlfile.To(yamlfile.ReadName), "picker": yamlfile.OneOf(policy.TextPickers()), "ties": yamlfile.To(readTies).As(schema.OneOf(tieNames())),
		"filter": yamlfile.To(f.readFilter), "scorer": yamlfile.To(f.readScorer), "hold": yamlfile.To(f.readHold),
		"filter expression": f.Expression(policy.CheckFilter), "score": f.Expression(policy.CheckScore), "hold expression": f.Expression(policy.CheckHold),
		"order": yamlfile.To(readOrder).As(schema.OneOf(router.QueueOrders())),
	}
	f.Rules["delay"] = f.readDelay(new(router.Age))
	for _, s := range router.AllSignals() {
		f.Rules[string(s)] = yamlfile.To(func(node ast.Node, _ **router.Age) error {
			age := f.text.Signals.AgeOf(s, false)
			f.Rules["delay"] = f.readDelay(&age)
			_, err := f.Read(node, "a signal", &age)
			f.text.Signals.Set(s, age)
			return err
		})
	}
	return f
}

// readDelay returns the rule for the delay of a signal: a time, or never.
func (f *policyFile) readDelay(age *router.Age) yamlfile.Rule {
	return yamlfile.To(func(node ast.Node, to *sim.Time) error {
		if text, err := yamlfile.TextOf(node); err == nil && text == Never {
			age.Never = true
			return nil
		}
		return yamlfile.ReadScalar(node, to, "")
	}).As(schema.AnyOf(yamlfile.InstantShape(), schema.OneOf([]string{Never})))
}

// checkWhole returns an error for incompatible keys.
func (f *policyFile) checkWhole(seen yamlfile.Seen) error {
	t := &f.text
	scored := t.Picker == policy.TakeHighest || t.Picker == policy.DrawByScore
	switch {
	case !seen.Has("filters") && !seen.Has("scorers") && !seen.Has("picker"):
		return errors.New("an empty policy, must have filters, scorers or a picker")
	case !scored && seen.Has("scorers"):
		return fmt.Errorf("scorers with the picker %s, which ignores scores", t.Picker)
	case t.Picker == policy.DrawByScore && !seen.Has("scorers"):
		return fmt.Errorf("no scorers with the picker %s", t.Picker)
	case seen.Has("temperature") && (t.Picker != policy.TakeHighest || !seen.Has("scorers")):
		return fmt.Errorf("a temperature, requires the picker %s and scorers", policy.TakeHighest)
	case seen.Has("ties") && (t.Picker != policy.TakeHighest || t.Temperature > 0):
		return fmt.Errorf("ties, require the picker %s without a temperature", policy.TakeHighest)
	case seen.Has("sent") && !slices.Contains(t.LooksAt(), "sent_blocks"):
		return errors.New("sent, and no expression reads sent_blocks")
	}
	alone := replay.Topology{Router: t}
	if err := alone.CheckSignals(); err != nil {
		return fmt.Errorf("signals: %w", err)
	}
	return nil
}

func (f *policyFile) readFilter(node ast.Node, x *policy.TextFilter) error {
	seen, err := f.Read(node, "a filter", x)
	if err == nil && len(seen) != 1 {
		err = f.ErrorAt(node, "a filter with keep and sample, must be two filters")
	}
	return err
}

func (f *policyFile) readScorer(node ast.Node, x *policy.TextScorer) error {
	x.Weight = 1
	seen, err := f.Read(node, "a scorer", x)
	if err == nil && seen.Has("score") == seen.Has("cost") {
		err = f.ErrorAt(node, "must be a scorer with either score, the higher the better, or cost, the lower the better")
	}
	return err
}

func (f *policyFile) readHold(node ast.Node, to **policy.TextHold) error {
	*to = &policy.TextHold{}
	seen, err := f.Read(node, "hold", *to)
	if err == nil && !seen.Has("above") {
		err = errors.New("must be above: the prompt tokens to compute with which a worker is busy, as 4 * pass_tokens")
	}
	return err
}

// tieNames returns the valid values of ties.
func tieNames() []string { return []string{"first", "any"} }

func readTies(node ast.Node, any *bool) error {
	name, err := yamlfile.ReadChoice(node, tieNames())
	*any = name == "any"
	return err
}

func readOrder(node ast.Node, to *router.QueueOrder) error {
	name, err := yamlfile.ReadChoice(node, router.QueueOrders())
	if err == nil {
		*to, err = router.ParseQueueOrder(name)
	}
	return err
}

// Never is the delay of a signal that routers do not receive.
const Never = "never"

// admissionFile reads a file with an admission.
type admissionFile struct{ yamlfile.File }

// ParseAdmission parses rules that hold or reject requests (docs/policies.md).
func ParseAdmission(path string, text []byte) (*policy.Admission, error) {
	f := newAdmissionFile(path)
	body, err := f.ReadBody(text, "admission")
	if err != nil {
		return nil, err
	}
	a := &policy.Admission{Name: baseOf(path)}
	seen, err := f.Read(body, "an admission", a)
	if err == nil && !seen.Has("rules") {
		err = f.ErrorAt(body, "an admission without rules accepts all requests, requires rules")
	}
	return a, err
}

// newAdmissionFile returns an admissionFile with its rules.
func newAdmissionFile(path string) *admissionFile {
	f := &admissionFile{yamlfile.File{Path: path}}
	f.Rules = rules{"name": yamlfile.To(yamlfile.ReadName), "rule": yamlfile.To(f.readRule).As(decisions{}), "condition": f.Expression(policy.CheckRule)}
	return f
}

// decisions are the keys of a rule of an admission, in the order of the router.Decision values.
type decisions struct {
	Accept string `yaml:"accept" is:"condition"`
	Hold   string `yaml:"hold" is:"condition"`
	Shed   string `yaml:"shed" is:"condition"`
}

// readRule reads a rule of an admission.
func (f *admissionFile) readRule(node ast.Node, to *policy.AdmissionRule) error {
	var d decisions
	seen, err := f.Read(node, "a rule", &d)
	if err == nil && len(seen) != 1 {
		err = f.ErrorAt(node, "a rule with %s, must be a rule for each", strings.Join(seen, " and "))
	}
	for i, when := range []string{d.Accept, d.Hold, d.Shed} {
		if when != "" {
			*to = policy.AdmissionRule{Decision: router.Accept + router.Decision(i), When: when}
		}
	}
	return err
}
