// Package nixl has the worker reports of vLLM's NIXL connectors about KV cache transfers between prefill and decode
// workers (docs/rules/vllm.md, "Prefill and decode workers").
package nixl

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Ended contains the ended transfers of a worker that no pass has reported yet. The zero value is ready to use.
type Ended struct {
	Late  bool            // a pass detects the end of transfers, and the next pass reports it
	all   []transfer      // transfers in order of their ends
	found []sim.RequestID // detected transfers, if Late
	told  []sim.RequestID
}

// transfer is a KV cache transfer that ended at an instant.
type transfer struct {
	id sim.RequestID
	at sim.Time
}

// Note adds a transfer that ends at an instant.
func (e *Ended) Note(id sim.RequestID, at sim.Time) {
	i := len(e.all)
	for i > 0 && e.all[i-1].at == at && e.all[i-1].id > id {
		i--
	}
	e.all = slices.Insert(e.all, i, transfer{id, at})
}

// Any reports whether transfers are waiting for a report.
func (e *Ended) Any() bool { return len(e.all)+len(e.found) > 0 }

// Take returns the transfers that a pass reports if the worker starts the pass at that instant. The list is valid
// until the next call.
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

// TakeMore returns additional transfers that the latest pass reports if the worker starts it at that instant.
func (e *Ended) TakeMore(at sim.Time) []sim.RequestID {
	e.told = e.told[:0]
	to := &e.told
	if e.Late {
		to = &e.found
	}
	*to = e.cut(*to, at)
	return e.told
}

// cut moves the transfers that ended by an instant to a list.
func (e *Ended) cut(to []sim.RequestID, at sim.Time) []sim.RequestID {
	n := 0
	for n < len(e.all) && e.all[n].at <= at {
		to = append(to, e.all[n].id)
		n++
	}
	e.all = slices.Delete(e.all, 0, n)
	return to
}

// Forget removes the transfer of a request.
func (e *Ended) Forget(id sim.RequestID) {
	e.all = slices.DeleteFunc(e.all, func(x transfer) bool { return x.id == id })
	e.found = slices.DeleteFunc(e.found, func(x sim.RequestID) bool { return x == id })
}
