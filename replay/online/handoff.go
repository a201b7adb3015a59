package online

import (
	"context"
	"sync"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// handoffs are KV caches on their way to the decode stage: what is to happen at
// which instant. One goroutine, run, waits for them.
type handoffs struct {
	timer *Timer
	clock *Clock

	mu    sync.Mutex
	queue heap.Heap[sim.Time, int, func()] // by the instant, then in the order of making
	made  int
}

func newHandoffs(c *Clock, precise bool) *handoffs {
	return &handoffs{clock: c, timer: NewTimer(c, precise)}
}

// schedule lets do happen at an instant, on the goroutine of run.
func (h *handoffs) schedule(t sim.Time, do func()) {
	h.mu.Lock()
	h.made++
	h.queue.Push(t, h.made, do)
	first := h.queue[0].Tie == h.made
	h.mu.Unlock()
	if first {
		h.timer.Wake()
	}
}

// run waits until ctx is done.
func (h *handoffs) run(ctx context.Context) {
	defer context.AfterFunc(ctx, h.timer.Wake)()
	for ctx.Err() == nil {
		next := sim.Time(maxSleepMS) + h.clock.Now()
		h.mu.Lock()
		for len(h.queue) > 0 && h.queue[0].Key <= h.clock.Now() {
			do := h.queue.Pop().Value
			h.mu.Unlock()
			do()
			h.mu.Lock()
		}
		if len(h.queue) > 0 {
			next = h.queue[0].Key
		}
		h.mu.Unlock()
		h.timer.Sleep(next)
	}
}
