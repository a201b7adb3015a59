package host

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
)

// Block is a KV block of the device.
type Block = int32

// Connector is both sides of the OffloadingConnector, the scheduler's and the worker's, without admission.
type Connector struct {
	Memory   *Memory
	Pending  int             // transfers that have not been reported as ended
	Failing  int             // running requests that found no room in host memory for their blocks
	Ended    []*Request      // since the pass before was planned
	Out      *scheduler.Pass // the running pass, which gets events
	Storing  bool            // blocks of requests that have ended are being copied
	Free     sim.Time        // when the device has computed what it was given so far
	blocks   float64         // bytes of a block
	toHost   Link[*Job]
	toDevice Link[*Job]

	unsubmitted []*Job   // stores of passes planned before
	planned     []*Job   // stores of the pass that is planned
	loads       []*Job   // of the pass that is planned
	flushed     []*Job   // that must have ended before it begins
	Taken       sim.Time // when the worker begins with the latest pass that it was given
	watched     []*Job   // stores of requests that have ended
	copied      []int32  // by block, how many of these copy it
	unused      []*Request
	hashes      map[Key]blocks.Hashes // of blocks in host memory, while events are captured
}

// Request is what the connector keeps of a request. It may outlive it.
type Request struct {
	User
	ID         sim.RequestID
	Chunks     int     // full blocks of the prompt
	Next       int     // the first block that has not been offered
	Held       []Block // of a request that has ended with blocks that were not offered
	Prefilling bool    // it is loading, or a pass has left prompt tokens of it to compute
	Arrived    bool    // its load has ended
	Lost       bool    // it was preempted before it was loaded
	From, To   int     // blocks that were loaded for its admission
	jobs       []*Job
	failed     bool // its blocks found no room in host memory
	over       bool // it has ended
	told       bool // and a pass was planned since
}

// Job is a transfer.
type Job struct {
	of     *Request
	Load   bool
	Orphan bool    // the request of a load was cancelled
	Held   []Block // that it releases then
	spans  []Span
	places []Block // that it reads, of a store of a request that has ended
}

// NewConnector returns a connector to empty host memory for blocks of a number of tokens. It writes down its events when they are captured.
func NewConnector(o *blocks.Offload, blockTokens int, ranked bool, capture scheduler.Capture) *Connector {
	c := &Connector{
		Memory: New(o.Blocks, ranked), blocks: float64(blockTokens) * float64(o.BytesPerToken),
		toHost: NewLink[*Job](o.ToHostGBPerSecond), toDevice: NewLink[*Job](o.ToGPUGBPerSecond),
	}
	if capture == scheduler.CaptureEvents {
		c.Memory.Watcher, c.hashes = c, map[Key]blocks.Hashes{}
	}
	return c
}

// Add returns a new request with that many full blocks in its prompt, named by keys.
func (c *Connector) Add(id sim.RequestID, chunks int) *Request {
	r := new(Request)
	if n := len(c.unused); n > 0 {
		r, c.unused = c.unused[n-1], c.unused[:n-1]
	}
	r.ID, r.Chunks = id, chunks
	return r
}

// recycle makes r usable for another request, if it has ended and nothing is left of it.
func (c *Connector) recycle(r *Request) {
	if r.told && len(r.jobs) == 0 {
		r.User.Reset()
		*r = Request{User: r.User, jobs: r.jobs[:0], Held: r.Held[:0]}
		c.unused = append(c.unused, r)
	}
}

// End notes that r has ended.
func (c *Connector) End(r *Request) {
	c.setFailed(r, false)
	for _, j := range r.jobs {
		j.Orphan = j.Load
	}
	r.Prefilling, r.over = false, true
	c.Ended = append(c.Ended, r)
}

// Leave notes that r, which is about to end, holds these KV blocks, of which the first ones are computed. It keeps
// blocks that are being copied, and blocks that are still to be offered.
func (c *Connector) Leave(r *Request, held []Block, computed int) {
	if c.Memory.Ranked && r.Next < r.Chunks {
		r.Held = append(r.Held[:0], held[:min(len(held), computed)]...)
	}
	for _, j := range r.jobs {
		if !j.Load {
			c.watchStore(j, held)
		}
	}
}

// watchStore watches the blocks that j copies, of those of its request.
func (c *Connector) watchStore(j *Job, held []Block) {
	for _, s := range j.spans {
		first, end := min(int(s.Index), len(held)), min(int(s.Index+s.Blocks), len(held))
		j.places = append(j.places, held[first:end]...)
	}
	if len(j.places) == 0 {
		return
	}
	for _, b := range j.places {
		if lack := int(b) + 1 - len(c.copied); lack > 0 {
			c.copied = slices.Grow(c.copied, lack)[:len(c.copied)+lack]
		}
		c.copied[b]++
	}
	c.watched, c.Storing = append(c.watched, j), true
}

// countBlocks returns the number of blocks of j.
func (j *Job) countBlocks() (n int) {
	for i := range j.spans {
		n += int(j.spans[i].Blocks)
	}
	return n
}

// LoadOf returns the load of r that is in progress, or nil.
func (c *Connector) LoadOf(r *Request) *Job {
	if len(r.jobs) > 0 && r.jobs[0].Load {
		return r.jobs[0]
	}
	return nil
}

// setFailed notes whether blocks of r found no room in host memory.
func (c *Connector) setFailed(r *Request, failed bool) {
	if r.failed == failed {
		return
	}
	if r.failed = failed; failed {
		c.Failing++
	} else {
		c.Failing--
	}
}

// Lookup returns how many blocks of r, after the first ones, it can load. It is to be asked again later where ok is false: r has
// transfers in progress, or one of the blocks is being copied or, if that counts, read.
func (c *Connector) Lookup(r *Request, hits int, reads bool) (blocks int, ok bool) {
	if c.Memory.Ranked {
		r.Next = 0
		c.setFailed(r, false)
	}
	if len(r.jobs) > 0 {
		return 0, false
	}
	found := c.Memory.Lookup(&r.User, hits, r.Chunks)
	if !c.Memory.Ranked {
		c.Memory.Touch(&r.User, r.Chunks)
	}
	if found.Coming || found.Read && reads {
		return 0, false
	}
	return found.Blocks, true
}

// Load begins to load blocks of r with the pass that is planned.
func (c *Connector) Load(r *Request, from, to int) {
	r.Prefilling, r.Arrived = true, false
	r.From, r.To, r.Next = from, to, to
	j := &Job{of: r, Load: true, spans: c.Memory.Load(&r.User, from, to)}
	r.jobs = append(r.jobs, j)
	c.loads = append(c.loads, j)
	c.Pending++
}

// Preempt notes that r loses its place with the pass that is planned, before which its stores must end.
func (c *Connector) Preempt(r *Request) {
	c.setFailed(r, false)
	r.Prefilling = false
	c.flushed = append(c.flushed, r.jobs...)
}

// Reuse notes that the pass that is planned gives a request block b: stores of it by requests that have ended must end before.
func (c *Connector) Reuse(b Block) {
	if int(b) >= len(c.copied) || c.copied[b] == 0 {
		return
	}
	for _, j := range c.watched {
		if slices.Contains(j.places, b) {
			c.flush(j)
		}
	}
}

func (c *Connector) flush(j *Job) {
	if !slices.Contains(c.flushed, j) {
		c.flushed = append(c.flushed, j)
	}
}

// Offer offers the blocks of r before an end that have not been offered yet to host memory. It returns the store, or nil.
func (c *Connector) Offer(r *Request, end int) *Job {
	if end <= r.Next {
		if !c.Memory.Ranked {
			r.Next = end
		}
		return nil
	}
	stored, ok := c.Memory.Offer(&r.User, r.Next, end)
	c.setFailed(r, !ok && !r.over)
	if !ok {
		return nil
	}
	r.Next = end
	if len(stored) == 0 {
		return nil
	}
	j := &Job{of: r, spans: slices.Clone(stored)}
	c.noteHashes(j)
	if !c.Memory.Ranked {
		c.Memory.Touch(&r.User, r.Chunks)
	}
	r.jobs = append(r.jobs, j)
	c.planned = append(c.planned, j)
	c.Pending++
	return j
}

// OfferEnded offers the rest of the requests that have ended, by the rules of 0.33. taken reports whether the pass that is
// planned gives a request one of these blocks.
func (c *Connector) OfferEnded(taken func([]Block) bool) {
	slices.SortFunc(c.Ended, func(a, b *Request) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range c.Ended {
		if c.Memory.Ranked {
			if j := c.Offer(r, min(r.Chunks, len(r.Held))); j != nil {
				c.watchStore(j, r.Held)
				if taken(j.places) {
					c.flush(j)
				}
			}
		}
	}
	for _, r := range c.Ended {
		c.Memory.End(&r.User)
		r.told = true
		c.recycle(r)
	}
	c.Ended = c.Ended[:0]
}

// Begin lets the worker take the pass that was planned, at an instant, and returns when the pass may begin: it submits the stores
// of earlier passes and waits for the stores that must have ended.
func (c *Connector) Begin(at sim.Time) sim.Time {
	c.Taken = max(c.Taken, at)
	if c.Memory.Ranked {
		for _, j := range c.flushed {
			if i := slices.Index(c.planned, j); i >= 0 {
				c.planned = slices.Delete(c.planned, i, i+1)
				c.unsubmitted = append(c.unsubmitted, j)
			}
		}
	}
	from := max(c.Taken, c.Free)
	for _, j := range c.unsubmitted {
		c.toHost.Submit(j, from, float64(j.countBlocks())*c.blocks)
	}
	c.unsubmitted = append(c.unsubmitted[:0], c.planned...)
	for _, j := range c.flushed {
		c.Taken = c.toHost.EndOf(j, c.Taken)
	}
	c.planned, c.flushed = c.planned[:0], c.flushed[:0]
	return max(at, c.Free, c.Taken)
}

// Finish ends the pass that Begin began when the end of its computation is known: it begins loads, by the rules of
// 0.33, and appends the transfers that the pass reports as ended.
func (c *Connector) Finish(free sim.Time, done []*Job) []*Job {
	c.Free = free
	from := c.Taken
	if c.Memory.Ranked {
		from = max(c.Taken, c.Free)
	}
	for _, j := range c.loads {
		c.toDevice.Submit(j, from, float64(j.countBlocks())*c.blocks)
	}
	c.loads = c.loads[:0]
	return c.toDevice.AppendEnded(c.toHost.AppendEnded(done, c.Taken), c.Taken)
}

// Complete ends j, which a pass has reported as ended.
func (c *Connector) Complete(j *Job) {
	r := j.of
	c.Pending--
	r.jobs = slices.DeleteFunc(r.jobs, func(x *Job) bool { return x == j })
	if j.Load {
		c.Memory.Loaded(j.spans)
		r.Arrived = true
	} else {
		c.Memory.Stored(j.spans)
		c.noteStored(j)
		c.unwatchStore(j)
	}
	c.recycle(r)
}

// unwatchStore forgets the blocks that j copied.
func (c *Connector) unwatchStore(j *Job) {
	for _, b := range j.places {
		c.copied[b]--
	}
	if len(j.places) > 0 {
		c.watched = slices.DeleteFunc(c.watched, func(x *Job) bool { return x == j })
		c.Storing = len(c.watched) > 0
	}
}

// QuietUntil returns the instant, at most the given one, up to which no transfer ends; 0 if one begins with the next pass.
func (c *Connector) QuietUntil(until sim.Time) sim.Time {
	if len(c.unsubmitted)+len(c.planned)+len(c.loads) > 0 {
		return 0
	}
	for _, l := range [...]*Link[*Job]{&c.toHost, &c.toDevice} {
		if at, ok := l.Next(); ok {
			until = min(until, at)
		}
	}
	return until
}

// NextEnd returns when the next transfer ends after an instant, or that instant if there is none.
func (c *Connector) NextEnd(now sim.Time) sim.Time {
	end := now
	for _, l := range [...]*Link[*Job]{&c.toHost, &c.toDevice} {
		if at, ok := l.Next(); ok && at > now && (end == now || at < end) {
			end = at
		}
	}
	return end
}
