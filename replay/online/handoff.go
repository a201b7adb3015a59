package online

import (
	"container/heap"
	"context"
	"sync"

	"github.com/replay-llm/replay/sim"
)

// handoffs are KV caches on their way to the decode stage: what is to happen at
// which instant. One goroutine, run, waits for them.
type handoffs struct {
	timer *Timer
	clock *Clock

	mu    sync.Mutex
	queue dues
	made  int
}

// due is something that is to happen.
type due struct {
	at   sim.Time
	made int
	do   func()
}

func newHandoffs(c *Clock, precise bool) *handoffs {
	return &handoffs{clock: c, timer: NewTimer(c, precise)}
}

// at lets do happen at an instant, on the goroutine of run.
func (h *handoffs) at(t sim.Time, do func()) {
	h.mu.Lock()
	h.made++
	heap.Push(&h.queue, due{t, h.made, do})
	first := h.queue[0].made == h.made
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
		for len(h.queue) > 0 && h.queue[0].at <= h.clock.Now() {
			d := heap.Pop(&h.queue).(due)
			h.mu.Unlock()
			d.do()
			h.mu.Lock()
		}
		if len(h.queue) > 0 {
			next = h.queue[0].at
		}
		h.mu.Unlock()
		h.timer.Sleep(next)
	}
}

// dues is a heap, earliest first, equal ones in the order of making.
type dues []due

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	if d[i].at != d[j].at {
		return d[i].at < d[j].at
	}
	return d[i].made < d[j].made
}
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)   { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	old := *d
	last := old[len(old)-1]
	old[len(old)-1] = due{}
	*d = old[:len(old)-1]
	return last
}
