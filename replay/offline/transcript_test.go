package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// TestTranscripts compares transcripts of clusters, call by call and effect by effect. A case is a cluster and its
// requests, one per line:
//
//	AT in=TOKENS out=TOKENS ids=BLOCKS
//
// Prompts have blocks of 16 tokens, each of which takes 1 ms from prefill to decode
// per unit of transfer. A pass takes 4 ms to compute prompts and 1 ms to decode.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x := readTrial(t, d)
			s := &scribe{}
			x.cfg.Observer = s
			readScaler(t, d, x)
			out := x.run(func(r *run, _ *journal) (driver, error) {
				c, err := newCluster(r)
				if err != nil {
					return nil, err
				}
				s.watch(c)
				for _, p := range c.pools {
					if p.auto != nil {
						p.auto.scaler = &scribeScaler{p.auto.scaler, s}
					}
				}
				return c.runEvents, nil
			})
			if out.err != nil {
				s.writef("%v", out.err)
			}
			return s.text.String()
		})
	})
}

// readTrial parses a case.
func readTrial(t *testing.T, d *datadriven.TestData) *trial {
	var trace strings.Builder
	for line := range strings.Lines(d.Input) {
		if d.HasArg("tasks") {
			continue // parsed by readTasks
		}
		var at float64
		var in, out int
		var ids string
		if _, err := fmt.Sscanf(line, "%g in=%d out=%d ids=%s", &at, &in, &out, &ids); err != nil {
			d.Fatalf(t, "%q: %v", line, err)
		}
		fmt.Fprintf(&trace, `{"timestamp":%g,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", at, in, out, ids)
	}
	read := func() *loadgen.Workload { return mooncake(t, trace.String(), 16) }
	if d.HasArg("tasks") {
		read = func() *loadgen.Workload { return readTasks(t, d) }
	}
	a := engineargs.Default()
	a.BlockTokens = 16
	d.MaybeScanArgs(t, "blocks", &a.Blocks)
	d.MaybeScanArgs(t, "startup", &a.StartupSeconds)
	workers, prefill, decode, transfer := 1, 0, 0, 0
	d.MaybeScanArgs(t, "workers", &workers)
	d.MaybeScanArgs(t, "prefill", &prefill)
	d.MaybeScanArgs(t, "decode", &decode)
	d.MaybeScanArgs(t, "transfer", &transfer)
	x := &trial{cfg: Config{Config: harness.Config{
		Workload: read(), Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		Topology: engines.Topology{Pools: engines.OnePool(a, workers)},
	}}, model: coarse{prefill: []float64{4}, decode: []float64{1}}}
	if prefill > 0 {
		a.KVBytesPerToken, a.TransferGBPerSecond = transfer*62_500, 1
		x.cfg.Pools = engines.TwoPools(engines.Pool{Engine: a, Count: prefill}, engines.Pool{Engine: a, Count: decode})
	}
	if d.HasArg("in-flight") {
		x.cfg.Admission.Mode = loadgen.Concurrency
		d.ScanArgs(t, "in-flight", &x.cfg.Admission.MaxInFlight)
	}
	readRouter(t, d, x)
	readFaults(t, d, x)
	readClient(t, d, x)
	readChanges(t, d, x)
	readPD(t, d, x)
	for _, arg := range d.CmdArgs {
		if arg.Key != "scale" {
			continue
		}
		for _, v := range arg.Vals {
			e := engines.ScaleEvent{Decode: engines.KeepSize}
			if _, err := fmt.Sscanf(v, "%g:%d", (*float64)(&e.At), &e.Workers); err != nil {
				d.Fatalf(t, "scale=%s: %v", v, err)
			}
			x.cfg.Scale = append(x.cfg.Scale, e)
		}
	}
	return x
}

// readFaults parses faults: fault=(AT:KIND:WORKER:FOR:FACTOR:POOL), loss=retry and detect=MS. Parts at the end of a
// fault are optional; worker -1 stands for all workers.
func readFaults(t *testing.T, d *datadriven.TestData, x *trial) {
	f := &engines.Faults{OnLoss: engines.LoseThem, Limit: engines.DefaultLimit}
	detect := 0
	d.MaybeScanArgs(t, "detect", &detect)
	f.Detect = sim.Time(detect)
	for _, arg := range d.CmdArgs {
		if arg.Key == "loss" {
			f.OnLoss = engines.OnLoss(arg.Vals[0])
		}
		if arg.Key != "fault" {
			continue
		}
		for _, v := range arg.Vals {
			e := engines.Fault{Pool: engines.Anywhere, Zone: engines.Anywhere, For: engines.Forever, Back: engines.Forever, N: 1}
			var who sim.WorkerID
			into := []any{(*float64)(&e.At), (*string)(&e.Kind), (*int32)(&who), (*float64)(&e.For), &e.Factor, &e.Pool}
			for i, part := range strings.Split(v, ":") {
				if _, err := fmt.Sscan(part, into[i]); err != nil {
					d.Fatalf(t, "fault=%s: %v", v, err)
				}
			}
			if who >= 0 {
				e.Workers = []sim.WorkerID{who}
			}
			e.Back = e.For
			f.Events = append(f.Events, e)
			x.cfg.Faults = f
		}
	}
}

func readRouter(t *testing.T, d *datadriven.TestData, x *trial) {
	threshold := -1.0
	d.MaybeScanArgs(t, "hold", &threshold)
	if threshold < 0 {
		return
	}
	config := router.DefaultConfig()
	config.QueueThreshold = &threshold
	x.cfg.Router = policy.KV.Configure(&config)
}

// scribe writes the transcript of a cluster.
type scribe struct {
	c    *cluster
	text strings.Builder
}

// watch inserts recorders between the cluster and its routers and cores.
func (s *scribe) watch(c *cluster) {
	s.c = c
	for _, p := range c.pools {
		for _, w := range p.workers {
			w.core = &scribeCore{w.core, s, w}
		}
		p.Router = &scribeRouter{p.Router, s, p}
	}
}

func (s *scribe) writef(format string, args ...any) {
	fmt.Fprintf(&s.text, "%5.4g  %s\n", float64(s.c.now), fmt.Sprintf(format, args...))
}

// name returns the name of a worker.
func (s *scribe) name(stage scheduler.Role, id sim.WorkerID) string {
	if stage == scheduler.Aggregated {
		return fmt.Sprintf("worker %d", id)
	}
	return fmt.Sprintf("%v worker %d", stage, id)
}

// Arrived records an arrival.
func (s *scribe) Arrived(q *sim.Request, _ sim.Time) { s.writef("request %d arrives", q.ID) }

// Routed records a placement.
func (s *scribe) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	s.writef("request %d goes to %s", p.Request.ID, s.name(stage, p.Worker))
}

// Handoff records a request that leaves prefill.
func (s *scribe) Handoff(id sim.RequestID, _, to sim.Time) {
	s.writef("request %d is handed over, there at %g", id, float64(to))
}

// Left records a request that leaves its worker.
func (s *scribe) Left(d *harness.Departure) {
	text := fmt.Sprintf("request %d has left", d.Request)
	if d.Worker != collector.Nowhere {
		text += fmt.Sprintf(" %s with %d tokens", s.name(d.Stage, d.Worker), d.Gained)
	}
	switch {
	case d.Outcome != collector.Unfinished:
		text += fmt.Sprintf(": %v", d.Outcome)
	case d.Keeps:
		text += " and takes them along"
	default:
		text += " and begins again"
	}
	s.writef("%s", text)
}

// Pass records the end of a pass or of a run of passes.
func (s *scribe) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	text := fmt.Sprintf("%s has run %s", s.name(stage, w), passesOf(p))
	var first, last []sim.RequestID
	for _, m := range p.Marks {
		if m.First {
			first = append(first, m.Request)
		}
		if m.Last {
			last = append(last, m.Request)
		}
	}
	if len(first) > 0 {
		text += fmt.Sprintf(", first token of %v", first)
	}
	if len(last) > 0 {
		text += fmt.Sprintf(", last of %v", last)
	}
	s.writef("%s", text)
}

func passesOf(p *scheduler.Pass) string {
	if p.Count == 1 {
		return fmt.Sprintf("1 pass from %g to %g", float64(p.Start), float64(p.End))
	}
	return fmt.Sprintf("%d passes from %g to %g", p.Count, float64(p.Start), float64(p.End))
}

// scribeCore is a core that records its calls.
type scribeCore struct {
	scheduler.Core
	s *scribe
	w *worker
}

func (c *scribeCore) Step(now, until sim.Time, p *scheduler.Pass) error {
	err := c.Core.Step(now, until, p)
	if err == nil && p.Blocked {
		c.s.writef("%s has no room, and waits", c.s.name(c.w.pool.Role, c.w.id))
	} else if err == nil {
		c.s.writef("%s starts %s", c.s.name(c.w.pool.Role, c.w.id), passesOf(p))
	}
	return err
}

func (c *scribeCore) Release(id sim.RequestID) bool {
	freed := c.Core.Release(id)
	if freed {
		c.s.writef("%s gives back the blocks of request %d", c.s.name(c.w.pool.Role, c.w.id), id)
	}
	return freed
}

func (c *scribeCore) Cut(p *scheduler.Pass, keep int) {
	before := p.Count
	c.Core.Cut(p, keep)
	c.s.writef("%s is cut: %d of %d passes, to %g", c.s.name(c.w.pool.Role, c.w.id), keep, before, float64(p.End))
}

// scribeRouter is a router that records the requests that it holds and the workers that it knows.
type scribeRouter struct {
	router.Router
	s *scribe
	p *pool
}

func (r *scribeRouter) Route(now sim.Time, q *sim.Request, dst []router.Placement) ([]router.Placement, error) {
	placed, err := r.Router.Route(now, q, dst)
	if slices.Contains(r.Waiting(nil), q.ID) {
		r.s.writef("request %d is held", q.ID)
	}
	return placed, err
}

func (r *scribeRouter) AddWorker(w sim.WorkerID) error {
	r.s.writef("%s joins", r.s.name(r.p.Role, w))
	worker := r.p.workers[w]
	worker.core = &scribeCore{worker.core, r.s, worker}
	return r.Router.AddWorker(w)
}

func (r *scribeRouter) RemoveWorker(w sim.WorkerID) error {
	r.s.writef("%s leaves", r.s.name(r.p.Role, w))
	return r.Router.RemoveWorker(w)
}
