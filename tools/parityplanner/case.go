package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// mostRecorded is the maximum number of ticks of a recorded case.
const mostRecorded = 150

// witness passes each tick to the scaler and to the planner. The decision of the scaler applies.
type witness struct {
	pool        string // planned pool; other pools keep their size
	workers     autoscale.Workers
	peer        *autoscale.Workers // decode workers if both pools are planned
	own         autoscale.Scaler
	theirs      *asked
	ticks       []tick
	acts        int
	differences []difference
	drawn       int // number of differences with drawn set
}

// difference is a tick at which the scaler and the planner want different numbers of workers.
type difference struct {
	tick  int
	text  string
	drawn bool // a second process of the planner wants or estimates something different too
}

// tick is the input of a tick, and the decision of the planner.
type tick struct {
	Now     sim.Time        `json:"now"` // time in ms
	Workers int             `json:"workers"`
	Ready   int             `json:"ready"`
	Passes  [][11]float64   `json:"passes,omitempty"`
	Traffic planner.Traffic `json:"traffic"`
	Want    int             `json:"want"`
	Peer    *tick           `json:"peer,omitempty"` // tick of the decode pool, if both pools are planned
	why     string          // the planner's reason for Want, with its estimates
}

// plannerCase is a recorded run.
type plannerCase struct {
	Planner *planner.Config    `json:"planner"`
	Sync    sim.Time           `json:"sync"`
	Workers autoscale.Workers  `json:"workers"`
	Peer    *autoscale.Workers `json:"peer,omitempty"` // decode pool, if both pools are planned
	Ticks   []tick             `json:"ticks"`
}

// SeesPasses returns true, since the planner reads passes.
func (w *witness) SeesPasses() bool { return true }

// Want asks the scaler and the planner, and returns the answer of the scaler.
func (w *witness) Want(s *autoscale.Signals) int {
	if s.Pool != w.pool {
		return s.Workers
	}
	t := newTick(s)
	got := w.own.Want(s)
	t.Want = w.theirs.Want(s)
	t.why = w.theirs.Scaler.(autoscale.Explainer).Why()
	if got != t.Want {
		text := fmt.Sprintf("%gs: %d workers (%s), the planner wants %d (%s)",
			float64(s.Now)/1000, got, w.own.(autoscale.Explainer).Why(), t.Want, w.theirs.Scaler.(autoscale.Explainer).Why())
		w.differences = append(w.differences, difference{tick: len(w.ticks), text: text})
	}
	if got != s.Workers {
		w.acts++
	}
	w.ticks = append(w.ticks, t)
	return got
}

// compareAgain passes the ticks to another planner. compareAgain marks the differences at which this planner wants or
// estimates something different.
func (w *witness) compareAgain(ask func(*tick) ([2]int, string, error)) error {
	different := map[int]bool{}
	for i := range w.ticks {
		t := &w.ticks[i]
		n, why, err := ask(t)
		if err != nil {
			return err
		}
		different[i] = n[0] != t.Want || why != t.why || t.Peer != nil && n[1] != t.Peer.Want
	}
	for i := range w.differences {
		if d := &w.differences[i]; !d.drawn && different[d.tick] {
			d.drawn = true
			w.drawn++
		}
	}
	return nil
}

// newTick returns a tick without the decision of the planner.
func newTick(s *autoscale.Signals) tick {
	t := tick{Now: s.Now, Workers: s.Workers, Ready: s.Ready, Traffic: s.Traffic}
	for i := range s.Each {
		if p := s.Each[i].Pass; p != nil {
			t.Passes = append(t.Passes, listNumbers(p))
		}
	}
	return t
}

// Err returns why the planner cannot decide any more; nil: it can.
func (w *witness) Err() error { return w.theirs.Scaler.(autoscale.Fallible).Err() }

// listNumbers returns a pass as numbers.
func listNumbers(p *scheduler.Snapshot) [11]float64 {
	n := [11]float64{float64(p.Worker), p.Seconds, float64(p.PrefillCached)}
	for i, g := range []*scheduler.Group{&p.Prefill, &p.Decode, &p.QueuedPrefill, &p.QueuedDecode} {
		n[3+2*i], n[4+2*i] = float64(g.Requests), float64(g.Sum)
	}
	return n
}

// signals converts a recorded tick to the input of a scaler.
func (t *tick) signals() *autoscale.Signals {
	s := &autoscale.Signals{Now: t.Now, Workers: t.Workers}
	s.At, s.Traffic = t.Now, t.Traffic
	for _, n := range t.Passes {
		p := &scheduler.Snapshot{Worker: int(n[0]), Seconds: n[1], PrefillCached: int(n[2])}
		for i, g := range []*scheduler.Group{&p.Prefill, &p.Decode, &p.QueuedPrefill, &p.QueuedDecode} {
			g.Requests, g.Sum = int(n[3+2*i]), int(n[4+2*i])
		}
		s.Each = append(s.Each, autoscale.Gauge{Worker: sim.WorkerID(p.Worker), Pass: p})
	}
	s.Ready = t.Ready
	return s
}

// record writes the first ticks of a run.
func (w *witness) record(folder string, r *run) error {
	spec := r.spec("")
	config := spec.AutoscalerOf(r.pool % 2)
	text, err := json.Marshal(&plannerCase{config.Planner, config.Sync, w.workers, w.peer, w.ticks[:min(len(w.ticks), mostRecorded)]})
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(folder, r.name()+".json.gz"))
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
		err = errors.Join(err, z.Close())
	}
	return errors.Join(err, f.Close())
}

// nameKeys returns a configuration with the planner's names.
func nameKeys(c *planner.Config) map[string]any {
	all, v := map[string]any{}, reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		x := v.Field(i)
		if x.Kind() == reflect.Pointer {
			if x.IsNil() {
				continue
			}
			x = x.Elem()
		}
		if x.Kind() == reflect.String && x.Len() == 0 {
			continue
		}
		all[v.Type().Field(i).Tag.Get("yaml")] = x.Interface()
	}
	return all
}
