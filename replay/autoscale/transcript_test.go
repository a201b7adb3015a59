package autoscale

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/sim"
)

// TestTranscripts runs scalers tick by tick.
//
//	scaler KIND workers=N [every=SECONDS]
//	{"Max": 20, ...} changes to the defaults of the kind
//
//	ticks
//	ready=2 waiting=5 [x3] signals at a tick; ready defaults to the requested number
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasSuffix(path, "process.txt") {
			return // TestProcessTranscripts
		}
		var x rig
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "scaler":
				return x.open(t, d)
			case "ticks":
				return x.tickAll(t, d.Input)
			}
			t.Fatalf("%s: no such command", d.Cmd)
			return ""
		})
	})
}

// rig is a scaler with its signals.
type rig struct {
	scaler Scaler
	now    sim.Time
	every  sim.Time
	s      Signals
}

func (x *rig) open(t *testing.T, d *datadriven.TestData) string {
	c := Default(Kind(d.CmdArgs[0].Key))
	if d.Input != "" {
		if err := json.Unmarshal([]byte(d.Input), &c); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		c.Up.Set, c.Down.Set = strings.Contains(d.Input, `"Up"`), strings.Contains(d.Input, `"Down"`)
	}
	every := int(c.Sync / 1000)
	*x = rig{}
	d.ScanArgs(t, "workers", &x.s.Workers)
	d.MaybeScanArgs(t, "every", &every)
	x.every = sim.Time(every) * 1000
	if err := c.Check(); err != nil {
		return err.Error()
	}
	if x.scaler = New(&c); c.Kind == Foreknown {
		var stays [][2]sim.Time
		for i := range 12 { // one more each 10 s; all are in flight until 150 s
			stays = append(stays, [2]sim.Time{sim.Time(i) * 10_000, 150_000})
		}
		x.scaler = NewPerfect(&c, NewForeseen(stays), 0)
	}
	return ""
}

// tickAll runs a tick for each line of signals.
func (x *rig) tickAll(t *testing.T, text string) string {
	var b strings.Builder
	for _, line := range strings.Split(text, "\n") {
		times := 1
		if rest, n, ok := strings.Cut(line, " x"); ok {
			line = rest
			times, _ = strconv.Atoi(n)
		}
		for range times {
			x.see(t, line)
			had := x.s.Workers
			x.s.Workers = x.scaler.Want(&x.s)
			fmt.Fprintf(&b, "%5gs  has %d, sees %s: wants %d (%s)\n", float64(x.now)/1000, had, line, x.s.Workers, x.scaler.(Explainer).Why())
		}
	}
	return b.String()
}

// spread gives each ready worker an equal share of the waiting and running requests, and the KV usage kv.
func (s *Scrape) spread(kv float64) {
	all := *s
	if len(all.Each) > 0 || all.Ready == 0 {
		return
	}
	s.Ready, s.Waiting, s.Running = 0, 0, 0
	share := func(n, i int) int { return n*(i+1)/all.Ready - n*i/all.Ready }
	for i := range all.Ready {
		s.Add(Gauge{Waiting: share(all.Waiting, i), Running: share(all.Running, i), KV: kv})
	}
}

// see parses the scrape of the next tick.
func (x *rig) see(t *testing.T, line string) {
	old := x.s
	x.now += x.every
	x.s = Signals{Now: x.now, Workers: old.Workers, Scrape: Scrape{At: x.now, Ready: old.Workers, Arrived: old.Arrived, Input: old.Input}}
	kv := 0.0
	ints := map[string]*int{"ready": &x.s.Ready, "missing": &x.s.Missing, "waiting": &x.s.Waiting, "running": &x.s.Running, "held": &x.s.Held, "other": &x.s.Other}
	rates := map[string]*float64{"rate": &x.s.Rate, "input": &x.s.InputRate, "output": &x.s.OutputRate, "kv": &kv}
	for _, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case name == "nothing":
			x.s.Scrape = Scrape{}
		case name == "each": // waiting requests by worker
			for _, n := range strings.Split(value, ",") {
				k, _ := strconv.Atoi(n)
				x.s.Each = append(x.s.Each, Gauge{Waiting: k})
				x.s.Waiting += k
			}
		case ints[name] != nil:
			*ints[name], err = strconv.Atoi(value)
		case rates[name] != nil:
			*rates[name], err = strconv.ParseFloat(value, 64)
		default:
			err = fmt.Errorf("no such name")
		}
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	x.s.spread(kv)
	x.s.Arrived += int(x.s.Rate * float64(x.every) / 1000)
	x.s.Input += int(x.s.InputRate * float64(x.every) / 1000)
}
