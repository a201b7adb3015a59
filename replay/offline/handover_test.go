package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// pd draws the settings of prefill and decode workers that a cluster supports.
func (d draw) pd(t *engines.Topology) {
	t.Compat = false
	if d.oneIn(2) { // an engine that follows vLLM's own rules supports all settings
		for i := range t.Pools {
			if e := &t.Pools[i].Engine; e.Engine == engineargs.VLLM && e.Rules.Reference() {
				// vLLM reserves one block
				e.Rules, e.Blocks = pick(d, releases.Rules019(), releases.Rules033()), e.Blocks+1
			}
		}
	}
	for t.PD = nil; t.PD == nil || t.CheckPD() != nil; {
		p := &engines.PD{
			DecodeChosen: pick(d, engines.AfterTransfer, engines.BeforeTransfer, engines.BeforePrefill, engines.BeforePrefill),
			Missing:      d.oneIn(3),

			DecodeAdmission: d.oneIn(2),
			HoldPrefill:     d.oneIn(2),
		}
		if d.oneIn(3) {
			p.Pull, p.HoldPrefill, p.Missing, p.DecodeAdmission = true, true, false, false
			p.Push = d.oneIn(2)
		}
		if d.oneIn(2) {
			p.Sharing = pick(d, engines.ShareFairly, engines.ShareInTurns)
			p.NIC, p.Core = pick(d, 0, 1.0, 0.5, 2, 3), pick(d, 0, 0, 1.0, 0.5, 3)
		}
		switch n := d.IntN(40); d.IntN(6) {
		case 0:
			p.Threshold = &n
		case 1:
			p.When = pick(d, "min(prefill.requests) < 2 and request.input_tokens - cached_tokens > 4", "in_transfer < 2", "sum(decode.tokens_to_compute) > 8 or prefill.queued > 0")
		case 2:
			p.Best = true
		}
		t.PD = p
	}
}

// TestPDScripts checks replays with random settings of prefill and decode workers, also with faults. Every request
// ends in exactly one outcome, no transfer remains, and runs of passes equal single passes.
func TestPDScripts(t *testing.T) {
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		if !x.cfg.Disaggregated() {
			return false
		}
		d.pd(&x.cfg.Topology)
		if !x.cfg.PD.Pull && d.oneIn(2) {
			x.cfg.Faults = d.faults(&x.cfg.Topology)
		}
		if !x.cfg.PD.Push && d.oneIn(4) {
			x.cfg.Client = d.client()
		}
		var left witness
		ways := &ways{}
		x.cfg.Observer = ways
		a, b := x.run(left.drive(false)), x.run(left.drive(true))
		if isStuck(a.err) {
			return false
		}
		about := func() string { return fmt.Sprintf("%+v\n%+v\n%s", x.cfg.PD, x.cfg.Faults, x.show(text)) }
		if a.err != nil {
			t.Fatalf("%v\n%s", a.err, about())
		}
		if text := left[0].unbalanced() + left[0].handover.describeRest(); text != "" {
			t.Fatalf("%s\n%s", text, about())
		}
		for _, w := range left[0].pools[1].workers {
			if w.promised != 0 || len(w.asking) > 0 || left[0].handover.asking != 0 {
				t.Fatalf("decode worker %d has promised %d blocks, and %d ask\n%s", w.id, w.promised, len(w.asking), about())
			}
		}
		if text := left[0].pools[0].keptRest(); text != "" {
			t.Fatalf("%s\n%s", text, about())
		}
		if text := ways.differFrom(left[1].Collector.Records()); text != "" {
			t.Fatalf("%s\n%s", text, about())
		}
		if text := left[0].miscounted(); text != "" {
			t.Fatalf("%s\n%s", text, about())
		}
		if diff := difference(a, b); diff != "" {
			t.Fatalf("runs and single passes: %s\n%s", diff, about())
		}
		return true
	})
}

// ways records which requests a prefill worker got in their latest attempt.
type ways struct {
	harness.NoObserver
	prefilled []bool
}

func (w *ways) Arrived(q *sim.Request, _ sim.Time) {
	w.prefilled = append(w.prefilled[:q.ID], false)
}

func (w *ways) Left(d *harness.Departure) { w.prefilled[d.Request] = false }

func (w *ways) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	if stage == scheduler.Prefill {
		w.prefilled[p.Request.ID] = true
	}
}

// differFrom returns an answered request with a wrong prefill worker in its record, "" if there is none.
func (w *ways) differFrom(records []collector.Record) string {
	for id := range records {
		r := &records[id]
		if r.Counted() && (r.PrefillWorker != collector.Nowhere) != w.prefilled[id] {
			return fmt.Sprintf("request %d has prefill worker %d, and has come through prefill: %v", id, r.PrefillWorker, w.prefilled[id])
		}
	}
	return ""
}

// keptRest returns the first prefill worker with KV blocks in use after the end, "" if there is none. keptRest also
// detects blocks that were released twice or never held.
func (p *pool) keptRest() string {
	// an idle worker with host memory does not release blocks
	if e := &p.Engine; !p.PD.HoldPrefill || p.PD.Pull || e.G2.Blocks > 0 {
		return ""
	}
	for _, w := range p.workers {
		fresh, err := p.Core(w.id)
		if err != nil {
			return err.Error()
		}
		if w.core == nil {
			continue
		}
		if got, want := w.core.Room(), fresh.Room(); got != want || len(w.freed) > 0 {
			return fmt.Sprintf("prefill worker %d has %d free KV blocks and %v to free, want %d and none", w.id, got, w.freed, want)
		}
	}
	return ""
}

// miscounted returns the sums of transfers between the pools that are wrong. miscounted checks replays without
// faults.
func (c *cluster) miscounted() string {
	if c.traffic == nil || c.Faults != nil || c.Client != nil {
		return ""
	}
	sent, local, rejected := 0, 0, 0
	for id, r := range c.Collector.Records() {
		if c.Collector.OutcomeOf(sim.RequestID(id)) == collector.Rejected {
			rejected++
			continue
		}
		if r.PrefillWorker == collector.Nowhere {
			local++
		} else {
			sent += int(r.InputTokens)
		}
	}
	n := c.traffic
	// a pull transfers whole blocks without cached ones
	if n.local != local || n.transfers+n.local != c.Collector.Len()-rejected || !c.PD.Pull && (n.tokens > sent || n.tokens < sent && !c.PD.Missing) {
		return fmt.Sprintf("%+v, want %d prompts on decode workers and %d tokens sent", *n, local, sent)
	}
	return ""
}

// describeRest returns the tickets that are left at the end, "" if none is left.
func (h *handover) describeRest() string {
	for _, t := range h.tickets {
		if t != nil {
			return fmt.Sprintf("request %d is on its way: %+v", t.id, *t)
		}
	}
	if h.links != nil && !h.links.IsIdle() {
		return "transfers are on links or wait for their turn"
	}
	return ""
}

// TestPrefillWorkerOfTheLast checks a request that restarts on a decode worker after a prefill worker computed its
// prompt. The record of the request has no prefill worker. The prefill and the decode worker die during the answer,
// and only the decode worker returns.
func TestPrefillWorkerOfTheLast(t *testing.T) {
	const script = `
replay prefill=1 decode=1 transfer=1 threshold=16 chosen=before-prefill fault=(8:dies:0:-1:0:0,8:dies:0:1:0:1) loss=retry
0 in=48 out=20 ids=1,2,3
----
20 tokens of 20, prefill worker -1
`
	datadriven.RunTestFromString(t, script, func(t *testing.T, d *datadriven.TestData) string {
		x := readTrial(t, d)
		x.cfg.Observer = &ways{}
		var left witness
		if out := x.run(left.drive(false)); out.err != nil {
			t.Fatal(out.err)
		}
		r := &left[0].Collector.Records()[0]
		if text := x.cfg.Observer.(*ways).differFrom(left[0].Collector.Records()); text != "" {
			t.Error(text)
		}
		return fmt.Sprintf("%d tokens of %d, prefill worker %d\n", r.Tokens, r.OutputTokens, r.PrefillWorker)
	})
}

// TestWideLinks checks that links with enough bandwidth change no bit of the result, for every kind of sharing.
func TestWideLinks(t *testing.T) {
	each(t, 500, func(t *testing.T, d draw, x *trial, text string) bool {
		if !x.cfg.Disaggregated() {
			return false
		}
		d.pd(&x.cfg.Topology)
		if x.cfg.PD.Sharing == "" {
			return false
		}
		wide, alone := *x.cfg.PD, *x.cfg.PD
		wide.NIC, wide.Core = pick(d, 0, 1e6), 1e6
		if x.cfg.Pools[0].Engine.TransferGBPerSecond == 0 {
			x.cfg.Pools[0].Engine.TransferGBPerSecond = 1
		}
		alone.Sharing, alone.NIC, alone.Core = "", 0, 0
		x.cfg.PD = &wide
		a := x.run(byCluster)
		x.cfg.PD = &alone
		b := x.run(byCluster)
		if diff := difference(a, b); diff != "" {
			t.Fatalf("wide links and none: %s\n%+v\n%s", diff, wide, x.show(text))
		}
		return true
	})
}

// TestSingleTransfers checks that a single transfer on shared links takes exactly as long as on links that are not
// shared.
func TestSingleTransfers(t *testing.T) {
	each(t, 500, func(t *testing.T, d draw, x *trial, text string) bool {
		if !x.cfg.Disaggregated() || x.cfg.Compat {
			return false
		}
		for i := range x.cfg.Pools {
			x.cfg.Pools[i].Count, x.cfg.Pools[i].Engine.Speedup = 1, 1
		}
		e := &x.cfg.Pools[0].Engine
		e.PrefixCaching = false // every prompt needs a prefill pass
		e.MaxSeqs, e.KVBytesPerToken, e.TransferGBPerSecond, e.TransferLatencyMs = 1, 333, pick(d, 1.0, 0.7), pick(d, 0, 0.3)
		x.cfg.Admission.MaxInFlight, x.cfg.Router = 1, policy.RoundRobin
		x.model = coarse{prefill: []float64{100}, decode: []float64{1}} // longer than any transfer
		for i := range x.cfg.Workload.Sessions {
			x.cfg.Workload.Sessions[i].Arrival = sim.Time(i) * 10_000
		}
		shared := &engines.PD{DecodeChosen: engines.BeforeTransfer, Sharing: pick(d, engines.ShareFairly, engines.ShareInTurns), NIC: e.TransferGBPerSecond}
		before := x.run(byCluster)
		x.cfg.PD = shared
		if x.cfg.CheckPD() != nil {
			return false
		}
		after := x.run(byCluster)
		before.calls, after.calls = nil, nil // the calls differ because decode workers are chosen earlier
		if diff := difference(before, after); diff != "" {
			t.Fatalf("%s\n%+v\n%s", diff, shared, x.show(text))
		}
		return true
	})
}

// readPD reads the settings of prefill and decode workers: chosen=before-prefill, share=fair with nic and core in
// GB/s, missing, and threshold=TOKENS, best or when=EXPRESSION (of workers by vLLM's own rules).
func readPD(t *testing.T, d *datadriven.TestData, x *trial) {
	p, given := &engines.PD{}, false
	for _, arg := range d.CmdArgs {
		text := strings.Join(arg.Vals, "")
		switch arg.Key {
		case "chosen":
			p.DecodeChosen = engines.DecodeChosen(text)
		case "share":
			p.Sharing = engines.Sharing(text)
		case "nic", "core":
			to := map[string]*float64{"nic": &p.NIC, "core": &p.Core}[arg.Key]
			if _, err := fmt.Sscan(text, to); err != nil {
				d.Fatalf(t, "%s: %v", arg.Key, err)
			}
		case "admission":
			p.DecodeAdmission = true
		case "hold-blocks":
			p.HoldPrefill = true
		case "missing":
			p.Missing = true
		case "pull":
			p.Pull, p.HoldPrefill = true, true
		case "push":
			p.Pull, p.Push, p.HoldPrefill = true, true, true
		case "threshold":
			p.Threshold = new(int)
			if _, err := fmt.Sscan(text, p.Threshold); err != nil {
				d.Fatalf(t, "threshold: %v", err)
			}
		case "when":
			p.When = strings.Join(arg.Vals, ",")
		case "best":
			p.Best = true
		default:
			continue
		}
		given = true
	}
	if !given {
		return
	}
	x.cfg.PD = p
	for i := range x.cfg.Pools {
		if e := &x.cfg.Pools[i].Engine; p.Chooses() || p.DecodeAdmission || p.HoldPrefill {
			e.Rules = releases.Rules033()
			e.Rules.TwoInFlight = false
		}
	}
	if err := x.cfg.CheckPD(); err != nil {
		d.Fatalf(t, "%v", err)
	}
}
