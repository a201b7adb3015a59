package main

import (
	"bytes"
	"os"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
)

// scalerCase is an autoscaler, its input at each tick, and the decisions of the controller.
type scalerCase struct {
	Config autoscale.Config `json:"config"`
	Ticks  []tick           `json:"ticks"`
}

// tick is the input of a tick and the decision. Times are in ms.
type tick struct {
	Now      sim.Time     `json:"now"`
	At       sim.Time     `json:"at,omitempty"` // time of the scrape; 0: no scrape has arrived
	Workers  int          `json:"workers"`
	Starting int          `json:"starting,omitempty"`
	Leaving  int          `json:"leaving,omitempty"`
	Missing  int          `json:"missing,omitempty"`
	Held     int          `json:"held,omitempty"`
	Rates    []float64    `json:"rates,omitempty"` // requests, input tokens and output tokens per second
	Each     [][3]float64 `json:"each,omitempty"`  // for each ready worker: waiting requests, running requests, share of KV blocks
	Want     int          `json:"want"`            // number of wanted workers
}

// newTick returns a tick without the decision.
func newTick(s *autoscale.Signals) tick {
	t := tick{
		Now: s.Now, At: s.At, Workers: s.Workers, Starting: s.Starting, Leaving: s.Leaving, Missing: s.Missing,
		Held: s.Held,
	}
	if s.Rate+s.InputRate+s.OutputRate > 0 {
		t.Rates = []float64{s.Rate, s.InputRate, s.OutputRate}
	}
	for _, g := range s.Each {
		t.Each = append(t.Each, [3]float64{float64(g.Waiting), float64(g.Running), g.KV})
	}
	return t
}

// signals converts the tick to the input of a scaler.
func (t *tick) signals() *autoscale.Signals {
	s := &autoscale.Signals{Now: t.Now, Workers: t.Workers, Starting: t.Starting, Leaving: t.Leaving, Missing: t.Missing}
	s.At, s.Held = t.At, t.Held
	if len(t.Rates) == 3 {
		s.Rate, s.InputRate, s.OutputRate = t.Rates[0], t.Rates[1], t.Rates[2]
	}
	for _, g := range t.Each {
		s.Add(autoscale.Gauge{Waiting: int(g[0]), Running: int(g[1]), KV: g[2]})
	}
	return s
}

// difference is a tick at which the scaler and the controller want different numbers of workers.
type difference struct {
	tick         int
	own, oracle  int
	why, because string
}

// compare sends a tick to the scaler and the controller, and stores the decision of the controller.
func (t *tick) compare(own, oracle autoscale.Scaler, i int) (*difference, error) {
	s := t.signals()
	got := own.Want(s)
	t.Want = oracle.Want(s)
	if err := oracle.(autoscale.Fallible).Err(); err != nil {
		return nil, err
	}
	if got == t.Want {
		return nil, nil
	}
	return &difference{i, got, t.Want, own.(autoscale.Explainer).Why(), oracle.(autoscale.Explainer).Why()}, nil
}

// countActs returns the number of ticks that change the number of workers.
func (c *scalerCase) countActs() (n int) {
	for i := range c.Ticks {
		if c.Ticks[i].Want != c.Ticks[i].Workers {
			n++
		}
	}
	return n
}

// writeCases writes a file with one case per line.
func writeCases(path string, all []*scalerCase) error {
	var b bytes.Buffer
	for _, c := range all {
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
