// Package nixl has the reports of workers with vLLM's NIXL connectors about KV caches between prefill and decode
// workers (docs/rules/vllm.md, "Prefill and decode workers").
package nixl

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Ended is the transfers of a worker that have ended and of which no pass has reported it. The zero value is ready to use.
type Ended struct {
	Late  bool            // a pass finds them, and the next one reports them
	all   []transfer      // in order
	found []sim.RequestID // with Late
	told  []sim.RequestID
}

// transfer is a KV cache that was transferred as a whole at an instant.
type transfer struct {
	id sim.RequestID
	at sim.Time
}

// Note notes that a transfer has ended at an instant.
func (e *Ended) Note(id sim.RequestID, at sim.Time) {
	i := len(e.all)
	for i > 0 && e.all[i-1].at == at && e.all[i-1].id > id {
		i--
	}
	e.all = slices.Insert(e.all, i, transfer{id, at})
}

// Any reports whether there are any.
func (e *Ended) Any() bool { return len(e.all)+len(e.found) > 0 }

// Take returns what a pass reports that the worker begins with at an instant. The list is valid until the next call.
func (e *Ended) Take(at sim.Time) []sim.RequestID {
	e.told = e.told[:0]
	to := &e.told
	if e.Late {
		e.told = append(e.told, e.found...)
		e.found, to = e.found[:0], &e.found
	}
	*to = e.cut(*to, at)
	return e.told
}

// TakeMore returns what else the latest pass reports, which the worker begins with at this instant.
func (e *Ended) TakeMore(at sim.Time) []sim.RequestID {
	e.told = e.told[:0]
	to := &e.told
	if e.Late {
		to = &e.found
	}
	*to = e.cut(*to, at)
	return e.told
}

// cut moves those of an instant or before to a list.
func (e *Ended) cut(to []sim.RequestID, at sim.Time) []sim.RequestID {
	n := 0
	for n < len(e.all) && e.all[n].at <= at {
		to = append(to, e.all[n].id)
		n++
	}
	e.all = slices.Delete(e.all, 0, n)
	return to
}

// Forget drops the transfer of a request.
func (e *Ended) Forget(id sim.RequestID) {
	e.all = slices.DeleteFunc(e.all, func(x transfer) bool { return x.id == id })
	e.found = slices.DeleteFunc(e.found, func(x sim.RequestID) bool { return x == id })
}
