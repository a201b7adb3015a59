package route_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// follow returns the catalog of a hub, and a function that returns the model names that the catalog reported.
func follow(t *testing.T, hub *drttest.Servers, o route.Options) (*route.Catalog, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	c, err := route.Follow(drttest.Within(t), drttest.Connect(t, hub.Config()), o, func(model string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, model)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// awaitModels waits until a catalog lists the wanted models and their number of instances.
func awaitModels(t *testing.T, c *route.Catalog, want string) []route.Served {
	t.Helper()
	for {
		served, changed := c.Models()
		var got []string
		for _, m := range served {
			got = append(got, fmt.Sprintf("%s %d", m.Name, m.Instances))
		}
		if fmt.Sprint(got) == want {
			return served
		}
		select {
		case <-changed:
		case <-drttest.Within(t).Done():
			t.Fatalf("models %v, want %s", got, want)
		}
	}
}

// A model is served while a callable worker shows its card. Afterwards Find still returns the model. The context
// length of the model is the shortest of all cards.
func TestCatalog(t *testing.T) {
	hub := drttest.Start(t)
	c, seen := follow(t, hub, route.Options{})
	if _, known := c.Find("model"); known {
		t.Error("a model is known although no worker serves it")
	}
	awaitModels(t, c, "[]")
	first := serve(t, hub, engine.Aggregated, same)
	awaitModels(t, c, "[model 1]")
	second := serve(t, hub, engine.Aggregated, func(c *engine.ModelCard) { c.ContextLength = 1234 })
	served := awaitModels(t, c, "[model 2]")
	if served[0].ContextLength != 1234 {
		t.Errorf("a context of %d tokens, want the shortest", served[0].ContextLength)
	}
	other := serve(t, hub, engine.Aggregated, func(c *engine.ModelCard) { c.Name = "" }) // card of another program
	if who, _ := call(t, served[0].Target, drttest.Within(t), prompt(1, 2), nil); who != first.ID() && who != second.ID() && who != other.ID() {
		t.Errorf("%x answered, which is nobody", who)
	}
	for _, rt := range []*drt.Runtime{first, second} {
		if err := rt.Close(drttest.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	awaitModels(t, c, "[]")
	if m, known := c.Find("model"); !known || m.Instances != 0 {
		t.Errorf("%+v, %v; want a model that was served", m, known)
	}
	if got := fmt.Sprint(seen()); got != "[model]" {
		t.Errorf("seen %s, want the model once", got)
	}
}

// A catalog of a namespace lists only the models of its workers.
func TestCatalogOfNamespace(t *testing.T) {
	hub := drttest.Start(t)
	own, _ := follow(t, hub, route.Options{Namespace: "test"})
	other, _ := follow(t, hub, route.Options{Namespace: "other"})
	serve(t, hub, engine.Aggregated, same)
	awaitModels(t, own, "[model 1]")
	awaitModels(t, other, "[]")
}

// Prefill and decode workers serve a model together. The model is listed when a prefill and a decode worker are
// available. Each request is routed to one prefill worker and one decode worker.
func TestCatalogOfPairs(t *testing.T) {
	for _, name := range []policy.Name{policy.RoundRobin, policy.KV, "p2c"} {
		t.Run(string(name), func(t *testing.T) {
			hub := drttest.Start(t)
			c, _ := follow(t, hub, route.Options{Policy: name, Router: router.DefaultConfig(), Warn: func(s string) { t.Log(s) }})
			serve(t, hub, engine.Prefill, same)
			decode := map[uint64]bool{}
			for range 2 {
				decode[serve(t, hub, engine.Decode, same).ID()] = true
			}
			served := awaitModels(t, c, "[model 1]")
			met := map[uint64]bool{}
			calls := 0
			answer := func() {
				who, _ := call(t, served[0].Target, drttest.Within(t), prompt(calls, 4), nil)
				if met[who] = true; !decode[who] {
					t.Errorf("%x answered, want a decode worker", who)
				}
				calls++
			}
			for range 6 {
				answer()
			}
			if name == policy.RoundRobin { // the catalog may list the model before the pool knows the second decode worker
				poll.Until(t, "both decode workers answer in turn", func() bool {
					answer()
					return len(met) == 2
				})
			}
		})
	}
}
