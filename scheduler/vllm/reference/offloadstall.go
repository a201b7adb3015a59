package reference

// offloadPatience is the number of passes in a row without a token and without
// a prompt further on after which requests run one at a time.
//
// An eviction that waits for its copy makes requests that do not fit beside
// each other take each other's place before either gets anywhere. By the letter
// of the chapter that can go on for ever; here the first one goes on alone.
const offloadPatience = 1000

// dragPatience is the number of passes that preempted someone since a request
// last ended, after which requests run one at a time until one has: they get
// on, but hardly.
const dragPatience = 2000

func (o *offload) impatient() bool {
	return o.host.blocks > 0 && (o.core.barren >= offloadPatience || o.dragged >= dragPatience)
}

// drag counts a pass that preempted someone, and starts over when a request has
// ended.
func (o *offload) drag(lost, ended bool) {
	switch {
	case ended:
		o.dragged = 0
	case lost:
		o.dragged++
	}
}

// waits says that a pass that led nowhere only passed the time of a transfer.
func (o *offload) waits() bool { return o.busy() && !o.stirred }

// retries says that after a pass that led nowhere, and was idle or not, the
// next may get further.
func (o *offload) retries(idle bool) bool {
	if idle && o.busy() {
		return true
	}
	return (idle || o.impatient()) && o.yield()
}

// yield makes the requests in line, except the head, give back the blocks they
// hold. It reports whether there were any.
//
// A request that found no block to go on with keeps what it has while others
// come before it; the head may need just those blocks.
func (o *offload) yield() (gave bool) {
	c := o.core
	if c.waiting.front == none {
		return false
	}
	for s := c.requests[c.waiting.front].next; s != none; s = c.requests[s].next {
		r := &c.requests[s]
		if r.allocated > 0 {
			o.release(s)
			r.allocated, r.computed = 0, 0
			gave = true
		}
	}
	return gave
}
