package offline

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Run replays cfg.Workload to its end. If ctx is done, Run stops early and returns ctx's error.
func Run(ctx context.Context, cfg Config) (*harness.Result, error) {
	started := time.Now()
	r, err := prepareRun(&cfg)
	if err != nil {
		return nil, err
	}
	drive, err := r.chooseDriver()
	if err != nil {
		return nil, err
	}
	err = drive(ctx)
	if broken := r.Feed.Err(); broken != nil {
		err = broken
	}
	var result *harness.Result
	if err == nil {
		if r.Progress != nil {
			r.Progress(r.done)
		}
		result = r.makeResult(started)
		err = r.Collector.Err()
	}
	if err != nil {
		r.Collector.Close() // the files of the collector are incomplete
		return nil, err
	}
	return result, nil
}

// makeResult derives the report from the collected records.
func (r *run) makeResult(started time.Time) *harness.Result {
	if r.partial && r.cfg.Until > 0 { // not for a run in steps, as in the reference
		r.Collector.EndedEarly()
	}
	result := &harness.Result{
		Collector: r.Collector, Partial: r.partial, RanOut: r.Feed.RanOut(), Incidents: r.countCosts(), Scaling: r.scaled,
	}
	extra := r.AddRejected(result, r.cfg.Reject)
	if r.MayLose() || r.Client != nil {
		extra = append(extra, r.OutcomeFields()...)
	}
	if r.Client != nil {
		sent, late := r.Collector.Attempts()
		extra = append(extra, collector.Of("client_attempts", sent), collector.Of("client_timeouts", late))
	}
	if r.Stages[0].Admits() {
		by, _ := r.Collector.Outcomes()
		extra = append(extra, collector.Of("shed_requests", by[collector.Shed]))
	}
	for _, s := range r.scaled {
		s.End = r.ended
	}
	extra = append(extra, harness.ScalingFields(r.scaled)...)
	extra = append(extra, r.trafficFields()...)
	if r.partial {
		extra = append(extra, collector.Of("partial", true))
	}
	if slices.ContainsFunc(r.Stages, (*engines.Stage).Offloads) {
		extra = append(extra, collector.Of(collector.HostReused, r.Collector.HostReusedRatio()))
		if sent, fetched := r.Collector.HostTokens(); sent+fetched > 0 {
			extra = append(extra, collector.Of("host_cache_written_tokens", sent), collector.Of("host_cache_loaded_tokens", fetched))
		}
	}
	if n := r.Collector.LostEvents(); n > 0 {
		extra = append(extra, collector.Of("dropped_kv_events", n))
	}
	result.Report = r.Report(time.Since(started), extra...)
	r.addCaches(result)
	return result
}

// countCosts returns the incidents with their costs.
func (r *run) countCosts() []harness.Incident {
	for i, cost := range r.Collector.EventCosts() {
		r.incidents[i].EventCost = cost
	}
	return r.incidents
}

// run is the state that all drivers share.
type run struct {
	*harness.Run
	cfg *Config

	partial bool

	incidents []harness.Incident
	scaled    []*harness.Scaling // of the pools with an autoscaler

	ended   sim.Time // end of the latest request
	traffic *traffic // nil: transfers between the pools are not counted

	saver *harness.Saver // saves caches; nil: not created yet

	done  int // requests that have ended
	ticks int // calls of checkInterrupt
}

// driver advances the clock until every request has ended.
type driver func(context.Context) error

// seesPasses reports whether an autoscaler reads the passes of workers.
func (c *Config) seesPasses() bool {
	for i := range c.Pools {
		if a := c.AutoscalerOf(i); a != nil && autoscale.SeesPasses(a, c.Scalers[i]) {
			return true
		}
	}
	return false
}

// prepareRun prepares a replay without its driver.
func prepareRun(cfg *Config) (*run, error) {
	if err := cfg.CheckScale(); err != nil {
		return nil, err
	}
	for i := range cfg.Pools {
		if a := cfg.AutoscalerOf(i); a != nil && cfg.Scalers[i] == nil && (a.Kind == autoscale.Custom || a.Kind == autoscale.ByProgram) {
			return nil, errors.New("an autoscaler of the kind custom or process requires a scaler")
		}
	}
	r, err := openRun(cfg, true)
	if err != nil {
		return nil, err
	}
	if err := r.MakeStages(); err != nil {
		return nil, err
	}
	// all rows have the columns of outcomes from the first row on
	if r.Stages[0].Admits() || cfg.Streamed() && r.MayReject() {
		r.Collector.KeepOutcomes()
	}
	if cfg.Reject || cfg.Streamed() {
		return r, nil
	}
	return r, engines.CheckSizes(cfg.Workload, r.Stages)
}

// openRun opens the workload. join allows a joined tree of prompts.
func openRun(cfg *Config, join bool) (*run, error) {
	cfg.PromptsLater = cfg.Admission.Mode == loadgen.Trace && len(cfg.Pools) == 1 && cfg.countThreads() > 1
	h, err := harness.Open(&cfg.Config, engines.Use{Steps: cfg.steps || cfg.seesPasses(), FitUncached: cfg.Reject}, join)
	return &run{Run: h, cfg: cfg}, err
}

// chooseDriver returns the fastest driver that supports the topology.
func (r *run) chooseDriver() (driver, error) {
	entry := r.Stages[0]
	one := entry.Count == 1 && entry.Engine.Engine == engineargs.VLLM
	route, err := entry.NewPolicy()
	if err != nil {
		return nil, err
	}
	needs := route.Needs()
	switch {
	case len(r.Scale)+len(r.Changes)+len(r.Possible) > 0 || r.hasIncidents() || entry.Admits() || r.savesLater():
	case len(r.Stages) == 1 && one && needs.Hold == nil && !needs.Overlap && !needs.Metrics:
		core, err := entry.Core(0)
		if err != nil {
			return nil, err
		}
		return (&single{run: r, core: core}).runPasses, r.warmAlone(0, core)
	case len(r.Stages) == 1 && needs == router.Needs{} && r.Feed.Independent() && !r.Streamed():
		return (&alone{run: r}).runWorkers, nil
	}
	c, err := newCluster(r)
	if err != nil {
		return nil, err
	}
	if !c.pools[0].metered && !r.hasIncidents() && c.canDriveLazily() {
		return c.driveLazily, nil
	}
	return c.runEvents, nil
}

// noteArrival opens the record of a request that has none. noteArrival reports false if the request was rejected.
// Requests that wait for a rejected request can start, because a rejected request has ended.
func (r *run) noteArrival(a *harness.Entering) (ok bool, err error) {
	q := a.Request
	switch r.Record(a); {
	case a.Refused == nil && r.cfg.Reject:
		return true, nil
	case a.Refused == nil:
		return true, r.CheckSize(q)
	}
	if r.Client != nil {
		r.Collector.Sent(q.ID, a.Sent)
	}
	r.RejectArrival(a.Refused, a.At)
	return false, r.finishRequest(q.ID, a.At)
}

// endInstant returns the first instant at which no arrival and no pass may begin.
func (r *run) endInstant() sim.Time {
	if r.cfg.Until == 0 {
		return never
	}
	return sim.Time(math.Nextafter(float64(r.cfg.Until), math.Inf(1)))
}

// recordProgress records the progress of the unfinished requests on a core, when the replay ends early.
func (r *run) recordProgress(core scheduler.Core) {
	if core != nil {
		core.Progress(r.Collector.Progress)
	}
}

// finishRequest records the end of a request.
func (r *run) finishRequest(id sim.RequestID, now sim.Time) error {
	r.done++
	r.ended = now
	if err := r.Feed.Finish(id, now); err != nil {
		return err
	}
	r.Feed.Reclaim(r.Requests.Get(int(id)))
	r.Requests.Set(int(id), nil)
	return nil
}

// ticksPerCheck is the number of steps between two checks of the context.
const ticksPerCheck = 256

// checkInterrupt returns the error of Stop. Every ticksPerCheck calls it also reports progress and returns the error
// of ctx or of the collector.
func (r *run) checkInterrupt(ctx context.Context) error {
	if r.Stop != nil {
		if err := r.Stop(r.Collector, r.done); err != nil {
			return err
		}
	}
	if r.ticks++; r.ticks%ticksPerCheck != 0 {
		return nil
	}
	if r.Progress != nil {
		r.Progress(r.done)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.Collector.Err()
}

// addDetail gives a pass a Detail if the replay has an observer.
func (r *run) addDetail(p *scheduler.Pass) {
	if r.Observer != nil && p.Detail == nil {
		p.Detail = new(scheduler.Detail)
	}
}
