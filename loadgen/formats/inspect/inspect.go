// Package inspect computes statistics of a trace of any length in bounded memory. The statistics include the lengths,
// the arrival rate over time, and the share of prompts that an infinite cache reuses.
//
// Statistics are exact until their memory limit is reached, and are then marked as estimates. Read inspect.go, then
// lengths.go, timeline.go, prefixes.go and text.go.
package inspect

import (
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// Summary has the statistics of a trace.
type Summary struct {
	Name, Format string
	Also         []string // formats that also match the file
	Block        int      // tokens of a hash id
	Private      bool     // the file has no information on shared prefixes
	Untimed      bool
	Measured     bool // arrivals depend on a client that waited for answers
	Estimated    bool // lengths were estimated from bytes
	Requests     int64
	Dropped      loadgen.Dropped
	Waiting      int64 // requests that wait for another request to complete
	InputTokens  int64
	OutputTokens int64
	Input        Lengths
	Output       Lengths
	Delays       Lengths // ms
	Turns        Lengths // requests per conversation
	Sessions     Figure  // conversations; each request without a conversation counts as one
	Arrivals     Timeline
	Unsorted     int64 // requests with an arrival before that of the previous row
	Blocks       int64 // blocks of all prompts
	Distinct     Figure
	Reused       Figure // blocks that an infinite cache reuses
	ReusedTokens Figure // tokens of reused blocks
	WithReuse    Figure // requests with reused blocks

	Graph Graph

	tracking
}

// tracking has the state of a summary between records.
type tracking struct {
	last   float64
	timed  bool
	shared seen
	groups counter
	single int64 // requests without a conversation
}

// Figure is a number that can be an estimate.
type Figure struct {
	Value       float64
	Approximate bool
}

// New returns an empty summary for the records of a stream.
func New(s *formats.Stream) *Summary {
	return &Summary{
		Name: s.Name, Format: s.Format, Also: s.Also, Block: s.Block, Private: s.Private,
		Untimed: s.Untimed, Measured: s.Measured, Estimated: s.Approximate,
		Arrivals: newTimeline(), tracking: tracking{shared: newSeen(), groups: newCounter(groupEntries)},
	}
}

// Read returns the summary of all remaining records of a stream.
func Read(s *formats.Stream) (*Summary, error) {
	sum := New(s)
	err := formats.Each(s, func(r *formats.Record) error {
		sum.Add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum.Dropped = s.Dropped()
	sum.Finish()
	return sum, nil
}

// Add adds a request to the statistics.
func (s *Summary) Add(r *formats.Record) {
	s.Requests++
	s.InputTokens += int64(r.Input)
	s.OutputTokens += int64(r.Output)
	s.Input.add(r.Input)
	s.Output.add(r.Output)
	if r.HasDelay {
		s.Waiting++
		s.Delays.add(int(math.Round(min(r.Delay, math.MaxInt32))))
	}
	if r.Name != "" {
		s.Graph.add(r)
	}
	if r.Group == nil {
		s.single++
	} else {
		s.groups.visitKey(hashBytes(r.Group))
	}
	if r.HasAt {
		s.addArrival(r.At)
	}
	s.addPrefix(r)
}

func (s *Summary) addArrival(at float64) {
	if s.timed && at < s.last {
		s.Unsorted++
	}
	s.last, s.timed = at, true
	s.Arrivals.add(at)
}

func (s *Summary) addPrefix(r *formats.Record) {
	blocks := (r.Input + s.Block - 1) / s.Block
	s.Blocks += int64(blocks)
	if r.Private {
		s.Distinct.Value += float64(blocks)
		return
	}
	if r.Full {
		s.Distinct.Value++ // the last, partial block, which no prompt shares
	}
	hits, tokens := 0.0, 0.0
	chain := uint64(0)
	for i, id := range r.IDs[:min(blocks, len(r.IDs))] {
		chain = linkChain(chain, id)
		weight, known := s.shared.visitBlock(id, chain)
		switch {
		case known:
			hits += weight
			tokens += weight * float64(min(s.Block, r.Input-i*s.Block))
		default:
			s.Distinct.Value += weight
		}
	}
	s.Reused.Value += hits
	s.ReusedTokens.Value += tokens
	if hits > 0 {
		s.WithReuse.Value++
	}
}

// Finish computes the statistics that depend on all requests.
func (s *Summary) Finish() {
	approximate := s.shared.sampled()
	s.Distinct.Approximate, s.Reused.Approximate = approximate, approximate
	s.ReusedTokens.Approximate, s.WithReuse.Approximate = approximate, approximate
	weight := s.groups.weight()
	s.Sessions = Figure{float64(s.single) + float64(s.groups.counts.Len())*weight, weight > 1}
	for _, n := range s.groups.counts.All() {
		s.Turns.add(int(*n))
	}
	s.Turns.Approximate = s.Turns.Approximate || weight > 1
}

// Reuse returns the share of prompt tokens that an infinite cache reuses.
func (s *Summary) Reuse() float64 {
	if s.InputTokens == 0 {
		return 0
	}
	return s.ReusedTokens.Value / float64(s.InputTokens)
}

// Graph has statistics of dependencies, for traces with named requests.
type Graph struct {
	Waiting int64 `json:"waiting_requests"` // requests that wait for other requests
	Joins   int64 `json:"joins"`            // requests that wait for two or more requests
	Widest  int   `json:"most_waiting"`     // maximum number of requests that wait for the same request
	Deepest int   `json:"longest_chain"`    // length of the longest chain of dependent requests

	nodes map[string]node
}

// node has the depth of a request in the graph and the number of requests that wait for it.
type node struct{ depth, heirs int }

// add adds a request. All requests for which r waits must be added before.
func (g *Graph) add(r *formats.Record) {
	if g.nodes == nil {
		g.nodes = make(map[string]node)
	}
	depth := 1
	for _, e := range r.After {
		before := g.nodes[e.Name]
		before.heirs++
		g.nodes[e.Name] = before
		depth = max(depth, before.depth+1)
		g.Widest = max(g.Widest, before.heirs)
	}
	if len(r.After) > 0 {
		g.Waiting++
	}
	if len(r.After) > 1 {
		g.Joins++
	}
	g.Deepest = max(g.Deepest, depth)
	g.nodes[r.Name] = node{depth: depth}
}
