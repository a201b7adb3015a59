package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Simulation replays the requests of a measured run on one simulated server, many times with different parameters.
type Simulation struct {
	settings measured.Settings
	rules    vllm.Rules
	requests []sim.Request
	arrivals []sim.Time
	tree     *prompt.Tree
	warmup   vllm.Warmup
	taken    []int          // the engine of each request; nil: the front end chooses
	speeds   []float64      // by engine, relative to an ordinary engine; nil: all are ordinary
	pace     float64        // speed of the whole run relative to other runs; 0 counts as 1
	stage    *engines.Stage // nil: the engines are vLLM's
	next     []int          // the result of followers
}

// newSimulation prepares replays of m, under the rules of the reference or of vLLM 0.19. The prompts p may be nil.
func newSimulation(m *Measured, p *measured.Prompts, reference bool) (*Simulation, error) {
	s := &Simulation{settings: m.Settings, rules: pickRules(&m.Settings), speeds: m.Speeds, taken: m.Taken}
	if reference {
		if m.Settings.DataParallel > 1 {
			return nil, &measured.NotModelledError{Reasons: []string{fmt.Sprintf(
				"data_parallel_size is %d, must be 1 with the rules of the reference", m.Settings.DataParallel)}}
		}
		s.rules = vllm.Rules{}
	}
	for i := range m.Requests {
		s.arrivals = append(s.arrivals, sim.Time(1000*m.Requests[i].Arrival))
	}
	if !m.Settings.IsVLLM() {
		if reference {
			return nil, &measured.NotModelledError{Reasons: []string{"the server is of " + m.Settings.Kind + ", must follow its own rules, not the reference's"}}
		}
		return s, s.useStage(m, p)
	}
	var err error
	if s.requests, s.tree, err = m.simRequests(p); err != nil {
		return nil, err
	}
	c := s.config(timing.Clock{})
	for i := range s.requests {
		if err := c.Fits(s.requests[i].InputTokens, s.requests[i].OutputTokens); err != nil {
			return nil, &measured.NotModelledError{Reasons: []string{"request " + string(m.Requests[i].ID) + ": " + err.Error()}}
		}
	}
	return s, nil
}

// pickRules returns the rules of a server's scheduler.
func pickRules(s *measured.Settings) vllm.Rules {
	r := releases.RulesOf(s.Version)
	r.TwoInFlight, r.ReserveWhole, r.LongPrefillTokens = s.Async, s.ReserveWhole, s.LongPrefillTokens
	return r
}

func (s *Simulation) config(clock timing.Clock) vllm.Config {
	return vllm.Config{
		Settings: vllm.Settings{
			MaxSeqs: s.settings.MaxSeqs, MaxBatchedTokens: s.settings.MaxBatchedTokens, ChunkedPrefill: s.settings.ChunkedPrefill,
			Rules: s.rules, Warmup: s.warmup,
		},
		Blocks: s.settings.Blocks, BlockTokens: s.settings.BlockTokens, PrefixCaching: s.settings.PrefixCaching,
		Clock: clock, Tree: s.tree,
	}
}

// Outcome holds the results of a simulated server for each request, by arrival. The times are the ends of the passes
// of the first and of the last token, in s.
type Outcome struct {
	First, Last, Scheduled []float64
	Begun                  []float64 // arrival of each request of a closed loop, in s; nil: as measured
	Preemptions            int
	Passes                 int
	// Way is the additional time until a client has the tokens.
	Way timing.Way

	record *ledger // nil: the work of passes is not recorded
}

// Run replays the requests with passes timed by model. Run calls watch with each pass, unless watch is nil.
func (s *Simulation) Run(model timing.Model, out *Outcome, watch func(*scheduler.Pass)) error {
	out.reset(len(s.requests))
	if s.next != nil {
		out.Begun = slices.Grow(out.Begun[:0], len(s.requests))[:len(s.requests)]
	}
	r, err := s.newServer(model, out, watch)
	if err != nil {
		return err
	}
	switch {
	case s.next != nil:
		return r.runClosed()
	case s.settings.Lockstep:
		return r.runLockstep()
	}
	return r.runApart()
}

// runRecorded calls Run and keeps the work of passes in record if that is not nil.
func (s *Simulation) runRecorded(p *timing.Parameters, out *Outcome, record *ledger) error {
	if record == nil {
		return s.Run(p, out, nil)
	}
	record.reset(s.settings.Engines(), len(s.requests))
	record.merges = s.stage != nil
	out.record = record
	defer func() { out.record = nil }()
	return s.Run(&recorder{p, p, record}, out, nil)
}

func (out *Outcome) reset(n int) {
	if len(out.First) != n {
		*out = Outcome{First: make([]float64, n), Last: make([]float64, n), Scheduled: make([]float64, n), record: out.record, Way: out.Way}
	}
	for i := range out.Scheduled {
		out.Scheduled[i] = math.NaN()
	}
	out.Preemptions, out.Passes = 0, 0
}

// notePass adds the results of a pass.
func (out *Outcome) notePass(p *scheduler.Pass) {
	out.Passes += p.Count
	if out.record != nil {
		out.record.notePass(p)
	}
	out.Preemptions += p.Preempted
	for _, a := range p.Admitted {
		if at := &out.Scheduled[a.Request]; math.IsNaN(*at) {
			*at = float64(p.Start) / 1000
		}
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		if m.First {
			out.First[m.Request] = float64(p.End) / 1000
		}
		if m.Last {
			out.Last[m.Request] = float64(p.End) / 1000
		}
	}
}

// speedAt returns the speed of an engine relative to the pass times.
func (s *Simulation) speedAt(number int) float64 {
	speed := cmp.Or(s.pace, 1)
	if number < len(s.speeds) {
		speed *= s.speeds[number]
	}
	return speed
}

// clockOf returns the clock of an engine's passes.
func (s *Simulation) clockOf(number int, model timing.Model) timing.Clock {
	return timing.Clock{Model: model, Speedup: s.speedAt(number), DecodeSpeedup: 1}
}

// scaleTime converts effects to an engine with another speed.
func (e *effects) scaleTime(speed float64) {
	if speed == 1 {
		return
	}
	for _, sums := range e.upTo {
		for k := range sums {
			sums[k] /= speed
		}
	}
}

// simRequests returns the run's requests as the scheduler receives them, by arrival. Without prompts, no two requests
// have a common prefix.
func (m *Measured) simRequests(p *measured.Prompts) (all []sim.Request, t *prompt.Tree, err error) {
	size := m.Settings.BlockTokens
	all = make([]sim.Request, len(m.Requests))
	for i := range m.Requests {
		r := &m.Requests[i]
		all[i] = sim.Request{ID: sim.RequestID(i), InputTokens: r.Input, OutputTokens: r.Output}
		all[i].Prompt = prompt.Prompt{Blocks: int32(r.Input / size), Seed: int32(i + 1)}
	}
	if p == nil {
		return all, treeFor(&m.Settings, nil), nil
	}
	if err := p.Check(m.Requests); err != nil {
		return nil, nil, err
	}
	t = treeFor(&m.Settings, p)
	list := t.AddAll(len(all), func(i int) ([]uint64, int) { return p.IDs[m.Requests[i].Place], m.Requests[i].Input })
	for i := range all {
		all[i].Prompt = list.At(i)
	}
	return all, t, nil
}

// treeFor returns an empty tree of prompts for the server's engines.
func treeFor(s *measured.Settings, p *measured.Prompts) *prompt.Tree {
	if p == nil {
		return prompt.NewTree(s.BlockTokens, s.BlockTokens, prompt.Options{})
	}
	return prompt.NewTree(p.BlockTokens, s.BlockTokens, prompt.Options{Joined: s.IsVLLM()})
}
