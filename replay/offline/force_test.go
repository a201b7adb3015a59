package offline

import (
	"context"
	"math"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// TestForcedChoices copies random replays before a request arrives. If the copy forces the worker that the router
// chooses, the copy equals the whole run. If the copy forces another worker, that worker gets the request. The
// original does not change.
func TestForcedChoices(t *testing.T) {
	others := 0
	each(t, 1000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.aggregate()
		whole := func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			return c.runEvents, err
		}
		plain := x.run(whole)
		if plain.err != nil || len(plain.records) == 0 {
			return false
		}
		var f *Fork
		if _, _, err := x.prepare(func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			f = &Fork{cluster: c, copier: newCopier()}
			return nil, err
		}, &journal{}); err != nil {
			t.Fatal(err)
		}
		id := sim.RequestID(d.IntN(len(plain.records)))
		was := &plain.records[id]
		if was.Worker == collector.Nowhere || was.Arrival <= 0 {
			return false
		}
		if err := f.AdvanceTo(context.Background(), sim.Time(math.Nextafter(float64(was.Arrival), 0))); err != nil {
			t.Fatal(err)
		}
		for w := range f.cluster.pools[0].Router.Loads().Workers {
			own, err := f.Copy()
			if err != nil {
				t.Fatal(err)
			}
			if own.ForceWorker(id, sim.WorkerID(w)) != nil {
				return false
			}
			got := own.end()
			if got.err != nil && sim.WorkerID(w) != was.Worker {
				continue
			}
			if sim.WorkerID(w) == was.Worker {
				if diff := difference(plain, got); diff != "" {
					t.Fatalf("request %d given to worker %d, as it was: %s\n%s", id, w, diff, x.show(text))
				}
				continue
			}
			others++
			if to := own.cluster.Collector.Records()[id].Worker; to != sim.WorkerID(w) {
				t.Fatalf("request %d given to worker %d went to %d\n%s", id, w, to, x.show(text))
			}
		}
		if diff := difference(plain, f.end()); diff != "" {
			t.Fatalf("the original: %s\n%s", diff, x.show(text))
		}
		return true
	})
	if others == 0 {
		t.Error("no request was given to another worker")
	}
}
