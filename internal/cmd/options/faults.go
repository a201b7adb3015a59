package options

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// faultFile is a file that says what goes wrong: a list of events and laws, or a mapping
// with such a list as faults, and what becomes of the requests beside it.
type faultFile struct {
	path string
	two  bool // there are prefill and decode workers
	all  replay.Faults
}

// IsFaultList reports whether the value of --faults is what a file would say, and no file.
func IsFaultList(value string) bool {
	return strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{")
}

// fillFaults enters into spec what goes wrong.
func (o *Options) fillFaults(spec *replay.Spec) error {
	path := o.Cluster.faults
	if path == "" {
		return nil
	}
	text, err := []byte(path), error(nil)
	if IsFaultList(path) {
		path = "--faults"
	} else if text, err = os.ReadFile(path); err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	f := faultFile{path: path, two: spec.Disaggregated()}
	if spec.Faults, err = f.readFaults(text); err != nil {
		return err
	}
	if err := spec.Topology.CheckFaults(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readFaults reads what the file holds.
func (f *faultFile) readFaults(text []byte) (*replay.Faults, error) {
	bodies, err := cli.YamlBodies(f.path, text)
	if err != nil {
		return nil, err
	}
	f.all = replay.Faults{OnLoss: engines.LoseThem, Limit: engines.DefaultLimit}
	for _, body := range bodies {
		if err := f.readBody(body); err != nil {
			return nil, err
		}
	}
	if len(f.all.Events)+len(f.all.Laws) == 0 {
		return nil, fmt.Errorf("%s: no faults, want a list of them, as - {at: 90s, worker: 1, what: dies}", f.path)
	}
	return &f.all, nil
}

func (f *faultFile) errorAt(at ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", cli.YamlPlace(f.path, at), excerpt.Sprintf(format, args...))
}

// readBody reads a document.
func (f *faultFile) readBody(body ast.Node) error {
	if list, ok := body.(*ast.SequenceNode); ok {
		return f.readList(list)
	}
	pairs, ok := cli.YamlPairs(body)
	if !ok {
		return f.errorAt(body, "want a list of faults, as - {at: 90s, worker: 1, what: dies}")
	}
	seen := map[string]bool{}
	for _, entry := range pairs {
		key := entry.Key.GetToken().Value
		if seen[key] {
			return f.errorAt(entry.Key, "%s is given twice", key)
		}
		seen[key] = true
		if err := f.setSetting(key, entry.Value); err != nil {
			if strings.HasPrefix(err.Error(), f.path+":") {
				return err
			}
			return f.errorAt(entry.Key, "%s: %v", key, err)
		}
	}
	return nil
}

// readList reads events and laws.
func (f *faultFile) readList(list *ast.SequenceNode) error {
	for _, node := range list.Values {
		if err := f.readFault(node); err != nil {
			return err
		}
	}
	return nil
}

// setSetting takes in a setting of the whole file.
func (f *faultFile) setSetting(key string, value ast.Node) (err error) {
	switch key {
	case "faults":
		list, ok := value.(*ast.SequenceNode)
		if !ok {
			return errors.New("want a list of faults, as - {at: 90s, worker: 1, what: dies}")
		}
		return f.readList(list)
	case "zones":
		return f.setZones(value)
	}
	text, err := cli.YamlText(value)
	if err != nil {
		return err
	}
	switch key {
	case "on_loss":
		ways := []string{string(engines.LoseThem), string(engines.RetryThem), string(engines.MigrateThem)}
		if f.all.OnLoss = engines.OnLoss(text); !slices.Contains(ways, text) {
			return excerpt.Errorf("%q, want %s%s", text, cli.Either(ways), nearest.Ask(text, ways))
		}
	case "limit":
		f.all.Limit, err = parseCount(text, 0, 1_000_000)
	case "after":
		f.all.After, err = cli.ParseInstant(text)
	default:
		keys := []string{"faults", "on_loss", "limit", "after", "zones"}
		return excerpt.Errorf("no such key, want %s%s", strings.Join(keys, ", "), nearest.Ask(key, keys))
	}
	return err
}

// setZones takes in how many zones there are, or the zone of each worker.
func (f *faultFile) setZones(value ast.Node) (err error) {
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		text, err := cli.YamlText(value)
		if err == nil {
			f.all.Zones, err = parseCount(text, 1, mostWorkers)
		}
		return err
	}
	if f.two {
		return errors.New("a zone for each worker, want a number of zones with --prefill-workers and --decode-workers")
	}
	f.all.ZoneOf, err = parseCounts(list)
	return err
}

// parseCount reads a whole number.
func parseCount(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, excerpt.Errorf("%s, want %d to %d", text, least, most)
	}
	return n, nil
}

// parseCounts reads a list of whole numbers from 0 on.
func parseCounts(list *ast.SequenceNode) ([]int, error) {
	var all []int
	for _, node := range list.Values {
		text, err := cli.YamlText(node)
		if err != nil {
			return nil, err
		}
		n, err := parseCount(text, 0, mostWorkers-1)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// entry is a fault or a law as the file has it.
type faultEntry struct {
	engines.Fault
	law  engines.FaultLaw
	seen map[string]bool
}

// readFault reads an event or a law.
func (f *faultFile) readFault(node ast.Node) error {
	pairs, ok := cli.YamlPairs(node)
	if !ok {
		return f.errorAt(node, "want a fault, as {at: 90s, worker: 1, what: dies}")
	}
	x := faultEntry{Fault: engines.Fault{Pool: engines.Anywhere, Zone: engines.Anywhere, For: engines.Forever, Back: engines.Forever, N: 1}, seen: map[string]bool{}}
	for _, entry := range pairs {
		key := entry.Key.GetToken().Value
		if x.seen[key] {
			return f.errorAt(entry.Key, "%s is given twice", key)
		}
		x.seen[key] = true
		if err := f.setValue(&x, key, entry.Value); err != nil {
			return f.errorAt(entry.Key, "%s: %v", key, err)
		}
	}
	if err := x.check(f.two); err != nil {
		return f.errorAt(node, "%v", err)
	}
	if x.seen["mtbf"] {
		x.law.Pool, x.law.Workers = x.Pool, x.Workers
		f.all.Laws = append(f.all.Laws, x.law)
		return nil
	}
	f.all.Events = append(f.all.Events, x.Fault)
	return nil
}

// faultKeys are those of an event or a law.
func faultKeys() []string {
	return []string{"at", "what", "worker", "pool", "zone", "for", "back", "factor", "share", "n", "mtbf", "mttr"}
}

// setValue takes in one value of a fault.
func (f *faultFile) setValue(x *faultEntry, key string, value ast.Node) (err error) {
	if list, ok := value.(*ast.SequenceNode); ok && key == "worker" {
		ids, err := parseCounts(list)
		for _, id := range ids {
			x.Workers = append(x.Workers, sim.WorkerID(id))
		}
		return err
	}
	text, err := cli.YamlText(value)
	if err != nil {
		return err
	}
	times := map[string]*sim.Time{"at": &x.At, "for": &x.For, "back": &x.Back, "mtbf": &x.law.Between, "mttr": &x.law.Repair}
	if at := times[key]; at != nil {
		if *at, err = cli.ParseInstant(text); err != nil {
			return excerpt.Errorf("%s: %w", text, err)
		}
		return nil
	}
	switch key {
	case "what":
		kinds := kindNames()
		if x.Kind = engines.FaultKind(text); !slices.Contains(kinds, text) {
			return excerpt.Errorf("%q, want %s%s", text, cli.Either(kinds), nearest.Ask(text, kinds))
		}
	case "worker":
		if text == "all" {
			return nil
		}
		id, err := parseCount(text, 0, mostWorkers-1)
		x.Workers = []sim.WorkerID{sim.WorkerID(id)}
		return err
	case "pool":
		return f.setPool(x, text)
	case "zone":
		x.Zone, err = parseCount(text, 0, mostWorkers-1)
	case "factor", "share":
		if x.Factor, err = strconv.ParseFloat(text, 64); err != nil || !(x.Factor > 0) || math.IsInf(x.Factor, 0) {
			return excerpt.Errorf("%s, want a number above 0", text)
		}
	case "n":
		x.N, err = parseCount(text, 1, mostWorkers)
	default:
		return excerpt.Errorf("no such key, want %s%s", strings.Join(faultKeys(), ", "), nearest.Ask(key, faultKeys()))
	}
	return err
}

// setPool takes in the name of a pool.
func (f *faultFile) setPool(x *faultEntry, text string) error {
	names := []string{"prefill", "decode"}
	i := slices.Index(names, text)
	switch {
	case !f.two:
		return errors.New("only with --prefill-workers and --decode-workers, want worker: all")
	case i < 0:
		return excerpt.Errorf("%q, want prefill or decode%s", text, nearest.Ask(text, names))
	}
	x.Pool = i
	return nil
}

func kindNames() []string {
	var names []string
	for _, k := range engines.FaultKinds() {
		names = append(names, string(k))
	}
	return names
}

// check refuses a fault that lacks something, and what is of no effect on it.
func (x *faultEntry) check(two bool) error {
	if x.seen["mtbf"] || x.seen["mttr"] {
		return x.wantOnly("a law", []string{"mtbf", "mttr"}, "worker", "pool")
	}
	if !x.seen["at"] || !x.seen["what"] {
		return errors.New("want at and what, or mtbf and mttr")
	}
	whom := []string{"worker", "pool", "zone"}
	var err error
	switch what := string(x.Kind); x.Kind {
	case engines.Dies:
		err = x.wantOnly(what, nil, append(whom, "back")...)
	case engines.Hangs:
		err = x.wantOnly(what, []string{"for"}, whom...)
	case engines.Slows:
		err = x.wantOnly(what, []string{"factor"}, append(whom, "for")...)
	case engines.Link:
		return x.wantOnly(what, []string{"share"}, "for")
	case engines.NoIndex, engines.Router:
		return x.wantOnly(what, nil, "pool")
	case engines.Rolling:
		return x.wantOnly(what, nil, append(whom, "n", "back")...)
	}
	if err == nil && !x.seen["worker"] && !x.seen["pool"] && !x.seen["zone"] {
		err = fmt.Errorf("%s: want worker, pool or zone; worker: all is all of them", x.Kind)
	}
	if err == nil && two && len(x.Workers) > 0 && !x.seen["pool"] {
		err = errors.New("a worker by its number, want pool: prefill or decode with it")
	}
	return err
}

// wantOnly refuses a fault without what is needed, or with what is neither needed nor
// allowed.
func (x *faultEntry) wantOnly(what string, needs []string, may ...string) error {
	if x.Kind != "" {
		may = append(may, "at", "what")
	}
	for _, key := range needs {
		if !x.seen[key] {
			return excerpt.Errorf("%s: want %s", what, key)
		}
	}
	for _, key := range faultKeys() {
		if x.seen[key] && !slices.Contains(needs, key) && !slices.Contains(may, key) {
			return excerpt.Errorf("%s: %s has no effect on it, want none", what, key)
		}
	}
	return nil
}
