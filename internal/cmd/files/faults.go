package files

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// faultFile reads a file of faults: a list of events and laws, or a mapping with this list in the key faults.
type faultFile struct {
	yamlfile.File
	two bool // prefill and decode workers are separate
	all replay.Faults
}

// faultEntry is an event, or a law for random events.
type faultEntry struct {
	engines.Fault `yaml:",inline"`
	Law           engines.FaultLaw `yaml:",inline"`
}

// aFaultList describes a list of faults in errors.
const aFaultList = "faults, as - {at: 90s, worker: 1, what: dies}"

// ParseFaults parses faults and the handling of lost requests. two reports whether prefill and decode workers are
// separate.
func ParseFaults(path string, text []byte, two bool) (*replay.Faults, error) {
	bodies, err := yamlfile.ListBodies(path, text)
	if err != nil {
		return nil, err
	}
	f := newFaultFile(path, two)
	for _, body := range bodies {
		if _, isList := body.(*ast.SequenceNode); isList {
			err = f.ReadList(body, aFaultList, f.readFault)
		} else if _, isMapping := yamlfile.PairsOf(body); isMapping {
			_, err = f.Read(body, "a file of faults", &f.all)
		} else {
			err = f.ErrorAt(body, "must be a list of %s", aFaultList)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(f.all.Events)+len(f.all.Laws) == 0 {
		return nil, fmt.Errorf("%s: no faults, must be a list of them, as - {at: 90s, worker: 1, what: dies}", path)
	}
	return &f.all, nil
}

// newFaultFile returns a faultFile with its rules.
func newFaultFile(path string, two bool) *faultFile {
	f := &faultFile{File: yamlfile.File{Path: path}, two: two, all: replay.Faults{OnLoss: engines.LoseThem, Limit: engines.DefaultLimit}}
	id := schema.Shape{"type": "integer", "minimum": 0, "maximum": 999_999}
	f.Rules = rules{
		"faults": {Read: func(node ast.Node, _ any) error { return f.ReadList(node, aFaultList, f.readFault) }, Shape: []faultEntry{}},
		"loss":   yamlfile.OneOf([]engines.OnLoss{engines.LoseThem, engines.RetryThem, engines.MigrateThem}),
		"zones":  yamlfile.To(f.readZones).As(schema.AnyOf(schema.Shape{"type": "integer", "minimum": 1, "maximum": 1_000_000}, schema.ListOf(id))),
		"kind":   yamlfile.OneOf(engines.FaultKinds()), "worker": yamlfile.To(f.readWorkers).As(schema.AnyOf(id, schema.ListOf(id), schema.OneOf([]string{"all"}))),
		"pool": yamlfile.To(f.readPool).As(schema.OneOf(poolNames())), "factor": yamlfile.To(readFactor).As(schema.Shape{"type": "number", "exclusiveMinimum": 0}),
	}
	return f
}

// poolNames returns the names of pools in the order of their stages.
func poolNames() []string { return []string{"prefill", "decode"} }

// readFault reads an event or a law.
func (f *faultFile) readFault(node ast.Node) error {
	x := faultEntry{Fault: engines.Fault{Pool: engines.Anywhere, Zone: engines.Anywhere, For: engines.Forever, Back: engines.Forever, N: 1}}
	seen, err := f.Read(node, "a fault", &x)
	if err != nil {
		return err
	}
	if err := x.check(seen, f.two); err != nil {
		return f.ErrorAt(node, "%v", err)
	}
	if seen.Has("mtbf") {
		x.Law.Pool, x.Law.Workers = x.Pool, x.Workers
		f.all.Laws = append(f.all.Laws, x.Law)
		return nil
	}
	f.all.Events = append(f.all.Events, x.Fault)
	return nil
}

// readZones reads the number of zones, or the zone of each worker.
func (f *faultFile) readZones(node ast.Node, to *int) error {
	list, ok := node.(*ast.SequenceNode)
	switch {
	case !ok:
		return yamlfile.ReadScalar(node, to, "1..1000000")
	case f.two:
		return errors.New("a zone for each worker, requires a number of zones with --prefill-workers and --decode-workers")
	}
	f.all.ZoneOf = nil
	for _, node := range list.Values {
		zone := 0
		if err := yamlfile.ReadScalar(node, &zone, "0..999999"); err != nil {
			return err
		}
		f.all.ZoneOf = append(f.all.ZoneOf, zone)
	}
	return nil
}

// readWorkers reads worker ids: a list, a single id, or all.
func (f *faultFile) readWorkers(node ast.Node, to *[]sim.WorkerID) error {
	nodes := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		nodes = list.Values
	} else if text, err := yamlfile.TextOf(node); err == nil && text == "all" {
		return nil
	}
	for _, node := range nodes {
		id := 0
		if err := yamlfile.ReadScalar(node, &id, "0..999999"); err != nil {
			return err
		}
		*to = append(*to, sim.WorkerID(id))
	}
	return nil
}

// readPool reads the name of a pool.
func (f *faultFile) readPool(node ast.Node, to *int) error {
	if !f.two {
		return errors.New("requires --prefill-workers and --decode-workers: use worker: all")
	}
	name, err := yamlfile.ReadChoice(node, poolNames())
	*to = slices.Index(poolNames(), name)
	return err
}

func readFactor(node ast.Node, to *float64) error {
	text, err := yamlfile.TextOf(node)
	if err != nil {
		return err
	}
	if *to, err = strconv.ParseFloat(text, 64); err != nil || !(*to > 0) || math.IsInf(*to, 0) {
		return excerpt.Errorf("%s, must be a number above 0", text)
	}
	return nil
}

// check returns an error for a missing key, and for a key without effect.
func (x *faultEntry) check(seen yamlfile.Seen, two bool) error {
	if seen.Has("mtbf") || seen.Has("mttr") {
		return wantOnly(seen, "a law", []string{"mtbf", "mttr"}, "worker", "pool")
	}
	if !seen.Has("at") || !seen.Has("what") {
		return errors.New("must be at and what, or mtbf and mttr")
	}
	may := []string{"at", "what", "worker", "pool", "zone"}
	var err error
	switch what := string(x.Kind); x.Kind {
	case engines.Dies:
		err = wantOnly(seen, what, nil, append(may, "back")...)
	case engines.Hangs:
		err = wantOnly(seen, what, []string{"for"}, may...)
	case engines.Slows:
		err = wantOnly(seen, what, []string{"factor"}, append(may, "for")...)
	case engines.Link:
		return wantOnly(seen, what, []string{"share"}, "at", "what", "for")
	case engines.NoIndex, engines.Router:
		return wantOnly(seen, what, nil, "at", "what", "pool")
	case engines.Rolling:
		return wantOnly(seen, what, nil, append(may, "n", "back")...)
	case engines.Role:
		err = wantOnly(seen, what, []string{"pool"}, append(may, "n", "back")...)
	}
	if err == nil && !seen.Has("worker") && !seen.Has("pool") && !seen.Has("zone") {
		err = fmt.Errorf("%s: must be worker, pool or zone; worker: all is all of them", x.Kind)
	}
	if err == nil && two && len(x.Workers) > 0 && !seen.Has("pool") {
		err = errors.New("a worker by its number, requires pool: prefill or decode")
	}
	return err
}

// wantOnly returns an error if a needed key is missing, or if a key is neither needed nor allowed.
func wantOnly(seen yamlfile.Seen, what string, needs []string, may ...string) error {
	for _, key := range needs {
		if !seen.Has(key) {
			return excerpt.Errorf("%s: must be %s", what, key)
		}
	}
	for _, key := range seen {
		if !slices.Contains(needs, key) && !slices.Contains(may, key) {
			return excerpt.Errorf("%s: %s has no effect on it, must be none", what, key)
		}
	}
	return nil
}
