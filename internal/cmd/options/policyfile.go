package options

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// policyFile is a file that says how requests are routed (docs/policies.md).
type policyFile struct {
	yamlFile
	text policy.Text
}

// policyFlag is the name of the flag for a file of a router policy.
const policyFlag = "router-policy"

// routerFlag is a flag that takes the name of a router, or a file of a policy.
type routerFlag struct{ cli.Choice }

// Set takes in a name or a file.
func (r *routerFlag) Set(text string) error {
	if IsPolicyFile(text) {
		r.Value = text
		return nil
	}
	return r.Choice.Set(text)
}

// IsPolicyFile reports whether the value of --router is a file.
func IsPolicyFile(router string) bool {
	ext := filepath.Ext(router)
	return ext == ".yaml" || ext == ".yml"
}

// policyPath returns the file of the router policy, "" where there is none.
func (o *Options) policyPath() string {
	if o.Cluster.policy == "" && IsPolicyFile(o.Cluster.Router.Value) {
		return o.Cluster.Router.Value
	}
	return o.Cluster.policy
}

// fillPolicy lets the router choose as a file says.
func (o *Options) fillPolicy(spec *replay.Spec, path string) error {
	flag := policyFlag
	if o.Cluster.policy == "" {
		flag = "router"
	} else if o.Changed("router") {
		return o.Only("router", "without --"+policyFlag)
	}
	switch {
	case o.Cluster.picker != "":
		return o.Only(pickerFlag, "without --"+flag+", whose file says how requests are routed")
	case o.IsCluster():
		return o.Only(flag, "in one process: the routers of --mode cluster choose by --router NAME")
	}
	text, err := readPolicy(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	spec.Router = text
	return nil
}

// readPolicy reads a router policy from a file.
func readPolicy(path string) (*policy.Text, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParsePolicy(path, text)
}

// ParsePolicy reads a router policy. path is what errors call it, and what it is named after
// where it has no name.
func ParsePolicy(path string, text []byte) (*policy.Text, error) {
	f := &policyFile{yamlFile: yamlFile{path}, text: policy.Text{Picker: policy.TakeHighest}}
	t := &f.text
	body, err := f.readBody(text, "router policy")
	if err != nil {
		return nil, err
	}
	seen, err := f.readKeys(body, "a router policy",
		yamlKey{"name", func(n ast.Node) error { return f.readName(n, &t.Name) }},
		yamlKey{"filters", f.readFilters},
		yamlKey{"scorers", f.readScorers},
		yamlKey{"picker", f.readPicker},
		yamlKey{"ties", f.readTies},
		yamlKey{"temperature", f.readTemperature},
		yamlKey{"hold", f.readHold},
		yamlKey{"sent", f.readSent},
		yamlKey{"signals", f.readSignals})
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	t.Name = cmp.Or(t.Name, strings.TrimSuffix(base, filepath.Ext(base)))
	if err := f.checkWhole(seen); err != nil {
		return nil, f.errorAt(body, "%v", err)
	}
	return t, nil
}

// checkWhole refuses keys that have nothing to do with one another.
func (f *policyFile) checkWhole(seen []string) error {
	t := &f.text
	has := func(key string) bool { return slices.Contains(seen, key) }
	scored := t.Picker == policy.TakeHighest || t.Picker == policy.DrawByScore
	switch {
	case !has("filters") && !has("scorers") && !has("picker"):
		return errors.New("an empty policy, want filters, scorers or a picker")
	case !scored && has("scorers"):
		return fmt.Errorf("scorers beside the picker %s, which looks at no score", t.Picker)
	case t.Picker == policy.DrawByScore && !has("scorers"):
		return fmt.Errorf("no scorers beside the picker %s", t.Picker)
	case has("temperature") && (t.Picker != policy.TakeHighest || !has("scorers")):
		return fmt.Errorf("a temperature, want the picker %s and scorers with it", policy.TakeHighest)
	case has("ties") && (t.Picker != policy.TakeHighest || t.Temperature > 0):
		return fmt.Errorf("ties, want the picker %s without a temperature with it", policy.TakeHighest)
	case has("sent") && !slices.Contains(t.LooksAt(), "sent_blocks"):
		return errors.New("sent, and no expression looks at sent_blocks")
	}
	return f.checkSignals()
}

func (f *policyFile) readName(node ast.Node, to *string) error {
	text, err := cli.YamlText(node)
	if *to = strings.TrimSpace(text); err == nil && *to == "" {
		return errors.New("want a name")
	}
	return err
}

// readExpression reads an expression that check has no complaint about.
func (f *policyFile) readExpression(node ast.Node, to *string, check func(string) error) error {
	text, err := cli.YamlText(node)
	if err != nil {
		return err
	}
	*to = strings.TrimSpace(text)
	line := node.GetToken().Position.Line
	if _, isBlock := node.(*ast.LiteralNode); isBlock {
		line++
	}
	var complaint *formula.Error
	if err := check(*to); errors.As(err, &complaint) {
		return placedError{fmt.Errorf("%s:%d: %s", f.path, line+complaint.Line-1, complaint.Text)}
	} else if err != nil {
		return err
	}
	return nil
}

func (f *policyFile) readFilters(node ast.Node) error {
	return f.readList(node, "filters, as - keep: requests < 8", func(item ast.Node) error {
		var x policy.TextFilter
		seen, err := f.readKeys(item, "a filter",
			yamlKey{"keep", func(n ast.Node) error { return f.readExpression(n, &x.Keep, policy.CheckFilter) }},
			yamlKey{"sample", func(n ast.Node) error { return readCount(n, &x.Sample) }})
		if err == nil && len(seen) != 1 {
			err = f.errorAt(item, "a filter with keep and sample, want two filters")
		}
		f.text.Filters = append(f.text.Filters, x)
		return err
	})
}

func (f *policyFile) readScorers(node ast.Node) error {
	return f.readList(node, "scorers, as - score: -requests", func(item ast.Node) error {
		x := policy.TextScorer{Weight: 1}
		seen, err := f.readKeys(item, "a scorer",
			yamlKey{"name", func(n ast.Node) error { return f.readName(n, &x.Name) }},
			yamlKey{"weight", func(n ast.Node) error { return readNumber(n, &x.Weight, -1e9, 1e9) }},
			yamlKey{"score", func(n ast.Node) error { return f.readExpression(n, &x.Score, policy.CheckScore) }},
			yamlKey{"cost", func(n ast.Node) error { return f.readExpression(n, &x.Cost, policy.CheckScore) }})
		if err == nil && slices.Contains(seen, "score") == slices.Contains(seen, "cost") {
			err = f.errorAt(item, "want a scorer with either score, the higher the better, or cost, the lower the better")
		}
		f.text.Scorers = append(f.text.Scorers, x)
		return err
	})
}

func (f *policyFile) readPicker(node ast.Node) error {
	var names []string
	for _, p := range policy.TextPickers() {
		names = append(names, string(p))
	}
	name, err := readChoice(node, names...)
	f.text.Picker = policy.TextPicker(name)
	return err
}

func (f *policyFile) readTies(node ast.Node) error {
	name, err := readChoice(node, "first", "any")
	f.text.AnyTie = name == "any"
	return err
}

func (f *policyFile) readTemperature(node ast.Node) error {
	return readNumber(node, &f.text.Temperature, 0, 1e9)
}

func (f *policyFile) readHold(node ast.Node) error {
	h := &policy.TextHold{}
	f.text.Hold = h
	seen, err := f.readKeys(node, "hold",
		yamlKey{"above", func(n ast.Node) error { return f.readExpression(n, &h.Above, policy.CheckHold) }},
		yamlKey{"order", func(n ast.Node) error {
			name, err := readChoice(n, router.QueueOrders()...)
			if err == nil {
				h.Order, err = router.ParseQueueOrder(name)
			}
			return err
		}})
	if err == nil && !slices.Contains(seen, "above") {
		err = errors.New("want above: the prompt tokens to compute with which a worker is busy, as 4 * pass_tokens")
	}
	return err
}

func (f *policyFile) readSent(node ast.Node) error {
	_, err := f.readKeys(node, "sent",
		yamlKey{"blocks", func(n ast.Node) error { return readCount(n, &f.text.Sent.Blocks) }},
		yamlKey{"for", readTime(&f.text.Sent.For)})
	return err
}

// readCount reads a whole number of at least 1.
func readCount(node ast.Node, to *int) error {
	text, err := cli.YamlText(node)
	if err != nil {
		return err
	}
	if *to, err = strconv.Atoi(text); err != nil || *to < 1 || *to > math.MaxInt32 {
		return excerpt.Errorf("%s: want a whole number from 1 on", text)
	}
	return nil
}

// readNumber reads a number from least to most.
func readNumber(node ast.Node, to *float64, least, most float64) error {
	text, err := cli.YamlText(node)
	if err != nil {
		return err
	}
	if *to, err = strconv.ParseFloat(text, 64); err != nil || !(*to >= least && *to <= most) {
		return excerpt.Errorf("%s: want a number from %v to %v", text, least, most)
	}
	return nil
}
