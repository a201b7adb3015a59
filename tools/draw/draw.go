// Package draw generates random replays from seeds. A replay consists of a trace and a command line of the reference.
//
// Read draw.go, then requests.go (the trace), engine.go (engines and the router) and profile.go. scaling.go generates
// replays with a planner that changes the size of the pools.
package draw

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Workload is a random replay: a trace and a command line of the reference.
type Workload struct {
	Seed  uint64
	Tags  Tags
	Trace string   // content of the trace file; "" for a synthetic workload
	Args  []string // arguments without the trace and the report
	// Profile is a file of pass times, if the engines use one; nil: none.
	Profile []byte
	Plan    *Schedule // schedule of a planner; nil: none
	Ties    bool      // the reference breaks ties at random, so any of its outcomes is accepted
}

// AllTags returns the tags that New may set.
func AllTags() []string {
	return []string{
		"vllm", "sglang", "alone", "pool", "kv", "disagg", "flat", "sessions", "synthetic", "agentic",
		"trace", "concurrency", "tight", "fifo", "unchunked", "uncached", "speed", "queue", "transfer", "straddle",
		"profile", "odd", "digits", "long", "hopeless", "scaling",
	}
}

// Drawer draws a workload.
type Drawer struct {
	*rand.Rand
	Workload
	tiny bool // the engines have very few blocks and a very small token budget
}

// New returns the workload of a seed.
func New(seed uint64) *Workload {
	if seed%10 == 9 {
		return newScaling(seed)
	}
	d := newDrawer(seed, 3)
	d.drawCluster(Pick(d.Rand, "vllm", "vllm", "vllm", "sglang"))
	return &d.Workload
}

// NewTiny starts a workload for engines with very few blocks and a very small token budget. Some requests can never
// run. The caller may draw more from the result.
func NewTiny(seed uint64) *Drawer {
	d := newDrawer(seed, 7)
	d.tiny = true
	if d.Chance(5) {
		d.Tags.Add("oversize")
	}
	d.drawCluster(Pick(d.Rand, "vllm", "sglang"))
	return d
}

func newDrawer(seed, stream uint64) *Drawer {
	return &Drawer{Rand: rand.New(rand.NewPCG(seed, stream)), Workload: Workload{Seed: seed}}
}

// drawCluster draws everything except the engine type.
func (d *Drawer) drawCluster(engine string) {
	d.Tags.Add(engine)
	d.Tags.Add(Pick(d.Rand, "alone", "alone", "pool", "pool", "kv", "disagg", "disagg"))
	if d.Tags.Has("disagg") && d.Chance(3) {
		d.Tags.Add("kv")
	}
	d.Tags.Add(Pick(d.Rand, "flat", "flat", "flat", "sessions", "sessions", "synthetic", "agentic"))
	if d.Tags.Has("agentic") || d.Chance(3) {
		d.Tags.Add("concurrency")
		d.addArgs("--replay-concurrency", Pick(d.Rand, 1, 2, 3, 8, 40))
	} else {
		d.Tags.Add("trace")
		if d.Chance(3) {
			d.addArgs("--arrival-speedup-ratio", Pick(d.Rand, "0.5", "2", "3.3", "10"))
		}
	}
	block := d.drawBlock()
	largest := d.drawRequests(block)
	d.drawTopology(block, largest)
}

func (d *Drawer) addArgs(args ...any) {
	for _, a := range args {
		d.Args = append(d.Args, fmt.Sprint(a))
	}
}

// Chance returns true with probability 1/n.
func (d *Drawer) Chance(n int) bool { return d.IntN(n) == 0 }

// maybe sets a member to one of the choices with probability 1/n.
func (d *Drawer) maybe(n int, members map[string]any, key string, choices ...any) {
	if d.Chance(n) {
		members[key] = Pick(d.Rand, choices...)
	}
}

// Pick returns one of the choices at random.
func Pick[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// Tags are the words that select a workload.
type Tags []string

// Add adds a tag, if it is missing.
func (t *Tags) Add(tag string) {
	if !t.Has(tag) {
		*t = append(*t, tag)
	}
}

// Has reports whether the workload has the tag.
func (t *Tags) Has(tag string) bool { return slices.Contains(*t, tag) }

// Match reports whether the workload has all tags of only and no tag of skip. only and skip are lists of tags,
// separated by commas.
func (t *Tags) Match(only, skip string) bool {
	missing := func(tag string) bool { return tag != "" && !t.Has(tag) }
	return !slices.ContainsFunc(strings.Split(only, ","), missing) && !slices.ContainsFunc(strings.Split(skip, ","), t.Has)
}

func (t *Tags) String() string { return strings.Join(*t, " ") }

// formatObject returns a JSON object with sorted keys.
func formatObject(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		panic(fmt.Sprintf("arguments %v: %v", members, err))
	}
	return string(text)
}
