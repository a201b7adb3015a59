package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/autoscale/planner"
)

// pairWitness is a witness of a prefill and a decode pool that are planned together. The prefill pool is asked first.
type pairWitness struct {
	*witness
	both [2]autoscale.Scaler
	err  error
}

// Want asks the scaler and the planner, and returns the answer of the scaler.
func (w *pairWitness) Want(s *autoscale.Signals) int {
	half := 0
	if s.Pool == "decode" {
		half = 1
	}
	if half == 0 && w.err == nil {
		t, peer := newTick(s), newTick(s.Peer)
		t.Peer = &peer
		w.err = w.theirs.sendPair(&t)
		w.ticks = append(w.ticks, t)
	}
	got := w.both[half].Want(s)
	if got != s.Workers {
		w.acts++
	}
	if len(w.ticks) == 0 || w.err != nil {
		return got
	}
	t := &w.ticks[len(w.ticks)-1]
	want := t.Want
	if half == 1 {
		want = t.Peer.Want
	}
	if got != want {
		text := fmt.Sprintf("%gs: %d %s workers (%s), the planner wants %d (%s)", float64(s.Now)/1000, got, s.Pool, w.both[half].(autoscale.Explainer).Why(), want, w.theirs.why)
		w.differences = append(w.differences, difference{tick: len(w.ticks) - 1, text: text})
	}
	return got
}

// Err returns why the planner cannot decide any more; nil: it can.
func (w *pairWitness) Err() error { return w.err }

// nameNumbers returns a pass with the names of the protocol.
func nameNumbers(n [11]float64) map[string]any {
	all := map[string]any{"worker": int(n[0]), "seconds": n[1], "prefill_cached_tokens": int(n[2])}
	for i, name := range []string{
		"prefill_requests", "prefill_tokens", "decode_requests", "decode_kv_tokens",
		"queued_prefill_requests", "queued_prefill_tokens", "queued_decode_requests", "queued_decode_kv_tokens",
	} {
		all[name] = int(n[3+i])
	}
	return all
}

// sendPair sends a tick to the planner, and stores its decision.
func (a *asked) sendPair(t *tick) error {
	type pool struct {
		Ready   int              `json:"ready"`
		Workers int              `json:"workers"`
		Passes  []map[string]any `json:"passes"`
	}
	show := func(t *tick) pool {
		p := pool{Ready: t.Ready, Workers: t.Workers}
		for _, n := range t.Passes {
			p.Passes = append(p.Passes, nameNumbers(n))
		}
		return p
	}
	line, err := json.Marshal(map[string]any{"now": t.Now, "traffic": t.Traffic, "pools": map[string]pool{"prefill": show(t), "decode": show(t.Peer)}})
	if err != nil {
		return err
	}
	answer, err := a.process.Ask(append(line, '\n'))
	if err != nil {
		return err
	}
	var r struct {
		Prefill, Decode int
		Why             string
	}
	err = json.Unmarshal(answer, &r)
	t.Want, t.Peer.Want, t.why, a.why = r.Prefill, r.Decode, r.Why, r.Why
	return err
}

// startPair starts a planner for both pools.
func (s *settings) startPair(ctx context.Context, config *autoscale.Config, prefill, decode planner.Engine) (*asked, error) {
	a, err := s.launch(ctx, config)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(map[string]any{"engines": map[string]planner.Engine{"prefill": prefill, "decode": decode}})
	if err == nil {
		_, err = a.process.Ask(append(line, '\n'))
	}
	if err != nil {
		return nil, errors.Join(err, a.close(), errors.New(a.stderr.String()))
	}
	return a, nil
}

// comparePair does the same as compare for a prefill and a decode pool that are planned together.
func (s *settings) comparePair(ctx context.Context, r *run, trace string) (*witness, error) {
	spec := r.spec(trace)
	config := spec.AutoscalerOf(0)
	both, err := spec.NewPlanners()
	if err != nil {
		return nil, err
	}
	prefill, err := spec.Pools[0].Seen()
	if err != nil {
		return nil, err
	}
	decode, err := spec.Pools[1].Seen()
	if err != nil {
		return nil, err
	}
	theirs, err := s.startPair(ctx, config, prefill.Engine, decode.Engine)
	if err != nil {
		return nil, err
	}
	w := &pairWitness{witness: &witness{workers: prefill, peer: &decode, theirs: theirs}, both: both}
	_, err = spec.Run(ctx, replay.Streams{Scaler: w})
	if err = errors.Join(err, theirs.close()); err != nil || len(w.differences) == 0 {
		return w.witness, err
	}
	for range again {
		theirs, err := s.startPair(ctx, config, prefill.Engine, decode.Engine)
		if err != nil {
			return w.witness, err
		}
		err = w.compareAgain(func(t *tick) ([2]int, string, error) {
			seen := *t
			peer := *t.Peer
			seen.Peer = &peer
			err := theirs.sendPair(&seen)
			return [2]int{seen.Want, seen.Peer.Want}, seen.why, err
		})
		if err = errors.Join(err, theirs.close()); err != nil {
			return w.witness, err
		}
	}
	return w.witness, nil
}
