package offline

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// client draws the retry and timeout rules of clients.
func (d draw) client() *engines.Client {
	return &engines.Client{
		Retries: pick(d, 0, 1, 2, 5), Backoff: pick(d, sim.Time(0), 0, 1, 2.5, 30), Factor: pick(d, 1.0, 2, 1.5),
		Longest: pick(d, sim.Time(0), 0, 4), Jitter: pick(d, 0.0, 0, 0.5, 1), Timeout: pick(d, sim.Time(0), 1, 3, 6, 10.5, 25),
	}
}

// TestClientScripts checks replays with clients that time out and retry, with held, shed and lost requests. Every
// request ends in exactly one outcome after at most the allowed attempts, and no router or worker holds a request at
// the end. Runs of passes equal single passes.
func TestClientScripts(t *testing.T) {
	resent, late, shed, faulty := 0, 0, 0, 0
	each(t, 3000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.cfg.Client, x.cfg.Signals = d.client(), d.signals(&x.cfg.Topology)
		if d.oneIn(2) {
			x.cfg.Topology.Admission = d.admissionRules()
		}
		if d.oneIn(3) {
			x.cfg.Faults = d.faults(&x.cfg.Topology)
			faulty++
		}
		var left witness
		a := x.run(left.drive(false))
		if isStuck(a.err) {
			return false
		}
		show := func() string {
			return fmt.Sprintf("%+v\n%+v\n%+v\n%s", x.cfg.Client, x.cfg.Topology.Admission, x.cfg.Faults, x.show(text))
		}
		if a.err != nil {
			t.Fatalf("%v\n%s", a.err, show())
		}
		if text := left[0].unbalanced() + left[0].overtried(); text != "" {
			t.Fatalf("%s\n%s", text, show())
		}
		by, _ := left[0].Collector.Outcomes()
		sent, timedOut := left[0].Collector.Attempts()
		resent, late, shed = resent+sent-left[0].Collector.Len(), late+timedOut, shed+by[collector.Shed]
		if diff := difference(a, x.run(left.drive(true))); diff != "" {
			t.Fatalf("runs and single passes: %s\n%s", diff, show())
		}
		return true
	})
	if want := trials(t, 3000) / 5; resent < want || late < want || shed < want || faulty < want {
		t.Errorf("%d requests sent again, %d hung up, %d shed, %d trials with faults, want at least %d of each", resent, late, shed, faulty, want)
	}
}

// overtried returns the first error in the attempts of requests that have ended.
func (c *cluster) overtried() string {
	if c.clients.away != 0 {
		return fmt.Sprintf("%d requests are still to be sent again", c.clients.away)
	}
	sum := 0
	for id := range c.Collector.Requests() {
		f := c.Collector.Fate(id)
		how := c.Collector.OutcomeOf(id)
		sum += 1 + f.Resent
		switch {
		case f.Resent > c.Client.Retries, f.TimedOut > 1+f.Resent:
			return fmt.Sprintf("request %d was sent %d times and hung up %d times", id, 1+f.Resent, f.TimedOut)
		case (how == collector.Shed || how == collector.Lost) && f.Resent < c.Client.Retries && c.pools[0].serving > 0 && c.pools[len(c.pools)-1].serving > 0:
			return fmt.Sprintf("request %d ended as %v after %d attempts", id, how, 1+f.Resent)
		}
	}
	if sent, _ := c.Collector.Attempts(); sent != sum {
		return fmt.Sprintf("%d attempts, and %d of all requests", sent, sum)
	}
	return ""
}

// TestWaits checks the waits of clients between attempts against their rules and the random draw.
func TestWaits(t *testing.T) {
	c := engines.Client{Backoff: 100, Factor: 2, Longest: 500}
	for n, want := range []sim.Time{100, 200, 400, 500, 500} {
		if got := c.WaitBefore(n+1, 1, 0); got != want {
			t.Errorf("before retry %d: %v ms, want %v", n+1, got, want)
		}
	}
	c.Jitter = 0.5
	least, most := sim.Time(1000), sim.Time(0)
	for id := range sim.RequestID(1000) {
		w := c.WaitBefore(1, 1, id)
		if w != c.WaitBefore(1, 1, id) {
			t.Fatal("the same draw is another number")
		}
		least, most = min(least, w), max(most, w)
	}
	if !(least >= 50 && least < 51 && most > 99 && most <= 100) {
		t.Errorf("waits are %v to %v ms, want 50 to 100", least, most)
	}
}

// readClient reads the rules of clients, client=RETRIES:BACKOFF:FACTOR:TIMEOUT, and an admission rule,
// shed=EXPRESSION.
func readClient(t *testing.T, d *datadriven.TestData, x *trial) {
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "client":
			c := &engines.Client{}
			if _, err := fmt.Sscanf(arg.Vals[0], "%d:%g:%g:%g", &c.Retries, (*float64)(&c.Backoff), &c.Factor, (*float64)(&c.Timeout)); err != nil {
				d.Fatalf(t, "client=%s: %v", arg.Vals[0], err)
			}
			x.cfg.Client = c
		case "shed":
			x.cfg.Topology.Admission = &policy.Admission{Name: "rules", Rules: []policy.AdmissionRule{{Decision: router.Shed, When: arg.Vals[0]}}}
		}
	}
}
