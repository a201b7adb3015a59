package offline

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// TestGraphOfChainsEqualsSessions checks that sessions and the graph of the same chains give the same replay, in
// every driver.
func TestGraphOfChainsEqualsSessions(t *testing.T) {
	each(t, 600, func(t *testing.T, _ draw, x *trial, text string) bool {
		if !x.cfg.Workload.MultiTurn() {
			return false
		}
		drivers := []maker{byCluster, byPasses}
		if x.cfg.Entry().Count == 1 && len(x.cfg.Pools) == 1 && x.cfg.Entry().Engine.Engine == engineargs.VLLM && x.cfg.Choice().Info().Name == policy.RoundRobin {
			drivers = append(drivers, bySingle)
		}
		for _, drive := range drivers {
			a := x.run(drive)
			graph := *x
			graph.cfg.Workload = chainsAsGraph(x.cfg.Workload)
			if d := difference(a, graph.run(drive)); d != "" {
				t.Fatalf("sessions and the graph of them: %s\n%s", d, x.show(text))
			}
		}
		return true
	})
}

// chainsAsGraph returns w with its sessions as a graph of waits.
func chainsAsGraph(w *loadgen.Workload) *loadgen.Workload {
	o := *w
	o.Turns = append([]loadgen.Turn(nil), w.Turns...)
	before := make([]int32, len(o.Turns))
	for i := range o.Turns {
		if next := o.Turns[i].Next; next >= 0 {
			before[next] = int32(i)
		}
	}
	g := &loadgen.Graph{First: []int32{0}, Arrival: make([]sim.Time, len(o.Turns))}
	for i := range o.Turns {
		t := &o.Turns[i]
		g.Arrival[i] = sim.Time(math.NaN())
		if s := &o.Sessions[t.Session]; t.Index > 0 {
			g.Waits = append(g.Waits, loadgen.Wait{For: before[i], Delay: t.Delay})
			t.Delay = 0
		} else if s.HasArrival {
			g.Arrival[i] = s.Arrival
		}
		g.First = append(g.First, int32(len(g.Waits)))
	}
	o.Graph = g
	return &o
}

// TestGraphsKeepTheirOrder checks the arrival of each request in a graph: the end of the last request that it waits
// for, plus its delay. All requests arrive.
func TestGraphsKeepTheirOrder(t *testing.T) {
	each(t, 600, func(t *testing.T, d draw, x *trial, text string) bool {
		w := randomGraph(d, x.cfg.Workload)
		x.cfg.Workload = w
		out := x.run(byCluster)
		if out.err != nil {
			return false // requests do not fit
		}
		if len(out.records) != len(w.Turns) {
			t.Fatalf("%d requests came, want %d\n%s", len(out.records), len(w.Turns), x.show(text))
		}
		byTurn := make([]*collector.Record, len(w.Turns))
		for i := range out.records {
			byTurn[turnOf(w, &out.records[i])] = &out.records[i]
		}
		speedup := sim.Time(x.cfg.Admission.Speedup)
		closed := x.cfg.Admission.Mode == loadgen.Concurrency
		for turn := range int32(len(w.Turns)) {
			ready := sim.Time(0)
			for _, wait := range w.Graph.WaitsOf(turn) {
				delay := wait.Delay
				if !closed {
					delay /= speedup
				}
				from := byTurn[wait.For].Last
				if wait.Start || byTurn[wait.For].Tokens == 0 { // a rejected request ends when it arrives
					from = byTurn[wait.For].Arrival
				}
				ready = max(ready, from+delay)
			}
			waits := len(w.Graph.WaitsOf(turn)) > 0
			if at := byTurn[turn].Arrival; at < ready || waits && !closed && at != ready {
				t.Fatalf("turn %d came at %v, want %v\n%s", turn, at, ready, x.show(text))
			}
		}
		if again := difference(out, x.run(byPasses)); again != "" && !x.timeless() {
			t.Fatalf("runs and single passes: %s\n%s", again, x.show(text))
		}
		return true
	})
}

// turnOf returns the turn of w that a record belongs to.
func turnOf(w *loadgen.Workload, r *collector.Record) int32 {
	turn := w.Sessions[r.Session].First
	for range r.Turn {
		turn = w.Turns[turn].Next
	}
	return turn
}

// randomGraph returns the requests of w as one task, in which each request waits for up to three earlier requests.
func randomGraph(d draw, w *loadgen.Workload) *loadgen.Workload {
	o := *w
	n := len(w.Turns)
	o.Turns = append([]loadgen.Turn(nil), w.Turns...)
	o.Sessions = []loadgen.Session{{ID: "task", Turns: int32(n), HasArrival: true}}
	g := &loadgen.Graph{First: []int32{0}, Arrival: make([]sim.Time, n)}
	for i := range n {
		t := &o.Turns[i]
		t.Session, t.Index, t.Next, t.Delay = 0, int32(i), int32(i+1), 0
		if i == n-1 {
			t.Next = -1
		}
		g.Arrival[i] = sim.Time(d.IntN(20))
		seen := map[int]bool{}
		for k := 0; k < 3 && i > 0; k++ {
			before := d.IntN(i)
			if d.oneIn(3) || seen[before] {
				continue
			}
			seen[before] = true
			g.Waits = append(g.Waits, loadgen.Wait{For: int32(before), Start: d.oneIn(4), Delay: sim.Time(pick(d, 0, 0, 1, 7.5))})
		}
		g.First = append(g.First, int32(len(g.Waits)))
	}
	o.Graph = g
	return &o
}

// readTasks reads the requests of a case that wait for other requests. Each line is
//
//	ID AT in=TOKENS out=TOKENS ids=BLOCKS [after=ID+DELAY,ID>DELAY]
//
// AT is - if the request waits. ID+DELAY counts from the completion of request ID, ID>DELAY from its arrival.
func readTasks(t *testing.T, d *datadriven.TestData) *loadgen.Workload {
	var rows strings.Builder
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		if len(f) < 5 {
			d.Fatalf(t, "%q: want five fields or more", line)
		}
		value := func(i int) string { _, v, _ := strings.Cut(f[i], "="); return v }
		fmt.Fprintf(&rows, `{"id":"%s","session_id":"t","input_length":%s,"output_length":%s,"hash_ids":[%s]`, f[0], value(2), value(3), value(4))
		if f[1] != "-" {
			fmt.Fprintf(&rows, `,"timestamp":%s`, f[1])
		}
		var after []string
		if len(f) > 5 {
			for _, e := range strings.Split(value(5), ",") {
				at := strings.IndexAny(e, "+>")
				after = append(after, fmt.Sprintf(`{"id":"%s","delay_ms":%s,"start":%v}`, e[:at], e[at+1:], e[at] == '>'))
			}
		}
		fmt.Fprintf(&rows, `,"after":[%s]}`+"\n", strings.Join(after, ","))
	}
	w, err := registry.Read(strings.NewReader(rows.String()), "tasks", formats.Options{TraceBlock: 16, Tasks: true})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return w
}
