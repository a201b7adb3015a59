package host

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
)

// Block is the number of a KV block on the device.
type Block = int32

// Connector is the scheduler side and the worker side of the OffloadingConnector, without admission.
type Connector struct {
	Memory   *Memory
	Pending  int             // number of transfers not yet reported as ended
	Failing  int             // number of running requests with blocks that did not fit into host memory
	Ended    []*Request      // requests that ended since the previous pass was planned
	Out      *scheduler.Pass // the running pass, to which events are appended
	Storing  bool            // blocks of ended requests are being copied
	Free     sim.Time        // when the device completes the work it has got so far
	blocks   float64         // size of a block in bytes
	toHost   Link[*Job]
	toDevice Link[*Job]

	unsubmitted []*Job   // stores planned with earlier passes
	planned     []*Job   // stores of the pass being planned
	loads       []*Job   // loads of the pass being planned
	flushed     []*Job   // transfers that must end before the pass being planned begins
	Taken       sim.Time // when the worker starts the latest pass that it got
	watched     []*Job   // stores of ended requests
	copied      []int32  // by block: number of stores in watched that copy it
	unused      []*Request
	hashes      map[Key]blocks.Hashes // hashes of blocks in host memory, if events are captured
}

// Request is the connector's data of a request. The data may remain after the request has ended.
type Request struct {
	User
	ID         sim.RequestID
	Chunks     int     // number of full blocks of the prompt
	Next       int     // index of the first block not yet offered
	Held       []Block // blocks of an ended request, if some were not offered
	Prefilling bool    // the request is loading, or a pass left some of its prompt tokens to compute
	Arrived    bool    // the load has ended
	Lost       bool    // the request was preempted before its load
	From, To   int     // blocks that were loaded for the admission
	jobs       []*Job
	failed     bool // blocks of the request did not fit into host memory
	over       bool // the request has ended
	told       bool // a pass was planned since the end
}

// Job is a transfer.
type Job struct {
	of     *Request
	Load   bool
	Orphan bool    // the request of the load was cancelled
	Held   []Block // blocks to release after an orphaned load
	spans  []Span
	places []Block // blocks that a store of an ended request reads
}

// NewConnector returns a connector with empty host memory. A block has blockTokens tokens. The connector appends
// events to passes if capture asks for them.
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

// Add returns a new request with that many full blocks in its prompt. The caller must set the Keyer of the new
// request.
func (c *Connector) Add(id sim.RequestID, chunks int) *Request {
	r := new(Request)
	if n := len(c.unused); n > 0 {
		r, c.unused = c.unused[n-1], c.unused[:n-1]
	}
	r.ID, r.Chunks = id, chunks
	return r
}

// recycle makes r available to another request if r has ended and has no transfers.
func (c *Connector) recycle(r *Request) {
	if r.told && len(r.jobs) == 0 {
		r.User.Reset()
		*r = Request{User: r.User, jobs: r.jobs[:0], Held: r.Held[:0]}
		c.unused = append(c.unused, r)
	}
}

// End records that r has ended.
func (c *Connector) End(r *Request) {
	c.setFailed(r, false)
	for _, j := range r.jobs {
		j.Orphan = j.Load
	}
	r.Prefilling, r.over = false, true
	c.Ended = append(c.Ended, r)
}

// Leave records the KV blocks of r, which is about to end; the first `computed` blocks are computed. The connector
// keeps blocks that are being copied and blocks that must still be offered.
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

// watchStore adds j to the watched stores; held are the blocks of its request.
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

// LoadOf returns the running load of r, or nil if there is none.
func (c *Connector) LoadOf(r *Request) *Job {
	if len(r.jobs) > 0 && r.jobs[0].Load {
		return r.jobs[0]
	}
	return nil
}

// setFailed records whether blocks of r did not fit into host memory.
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

// Lookup returns how many blocks of r after the first `hits` blocks can be loaded. If ok is false, the caller must
// ask again later: r has running transfers, or a found block is being copied. If reads is set, a found block that is
// being read delays, too.
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

// Load starts a load of blocks of r with the pass being planned.
func (c *Connector) Load(r *Request, from, to int) {
	r.Prefilling, r.Arrived = true, false
	r.From, r.To, r.Next = from, to, to
	j := &Job{of: r, Load: true, spans: c.Memory.Load(&r.User, from, to)}
	r.jobs = append(r.jobs, j)
	c.loads = append(c.loads, j)
	c.Pending++
}

// Preempt records that the pass being planned preempts r. The stores of r must end before the pass.
func (c *Connector) Preempt(r *Request) {
	c.setFailed(r, false)
	r.Prefilling = false
	c.flushed = append(c.flushed, r.jobs...)
}

// Reuse records that the pass being planned allocates block b. Stores of b by ended requests must end before the
// pass.
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

// Offer offers the blocks of r up to end that were not offered yet to host memory. Offer returns the store, or nil if
// nothing is stored.
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

// OfferEnded offers the remaining blocks of ended requests, by the rules of vLLM 0.33. taken reports whether the pass
// being planned allocates one of these blocks.
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

// Begin passes the planned pass to the worker at an instant, and returns when the pass may begin. The worker submits
// the stores of earlier passes, and waits for stores that must end before the pass.
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

// Finish completes the pass of Begin after the end of its computation is known. By the rules of vLLM 0.33 loads begin
// then. Finish appends the transfers that the pass reports as ended.
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

// Complete completes a transfer that a pass has reported as ended.
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

// unwatchStore removes j from the watched stores.
func (c *Connector) unwatchStore(j *Job) {
	for _, b := range j.places {
		c.copied[b]--
	}
	if len(j.places) > 0 {
		c.watched = slices.DeleteFunc(c.watched, func(x *Job) bool { return x == j })
		c.Storing = len(c.watched) > 0
	}
}

// QuietUntil returns the first instant, at most until, at which a transfer ends. QuietUntil returns 0 if a transfer
// begins with the next pass.
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

// NextEnd returns when the next transfer ends after now, or now if there is none.
func (c *Connector) NextEnd(now sim.Time) sim.Time {
	end := now
	for _, l := range [...]*Link[*Job]{&c.toHost, &c.toDevice} {
		if at, ok := l.Next(); ok && at > now && (end == now || at < end) {
			end = at
		}
	}
	return end
}
