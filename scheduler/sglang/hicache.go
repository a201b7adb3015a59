package sglang

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// HiCache is host memory behind the token pool, SGLang's hierarchical cache.
type HiCache struct {
	Pages             int         // pages of host memory; 0: none
	Policy            WritePolicy // when pages are copied to the host
	BytesPerToken     int         // bytes of KV cache; 0: copies take no time
	ToHostGBPerSecond float64     // 10^9 bytes per second; 0: copies take no time
	ToGPUGBPerSecond  float64     // 10^9 bytes per second for copies to the GPU; 0: copies take no time
	Layers            int         // layers of the model, > 0: a load arrives layer by layer
	Storage           Storage     // storage behind host memory
}

// WritePolicy is when pages are copied to the host.
type WritePolicy uint8

const (
	WriteThrough          WritePolicy = iota // pages are copied when they are cached
	WriteThroughSelective                    // pages are copied when they are cached a second time
	WriteBack                                // pages are copied when the device evicts them
)

// writePolicies returns the names of the write policies.
func writePolicies() []string {
	return []string{"write_through", "write_through_selective", "write_back"}
}

// ParseWritePolicy returns the policy with the given name, or WriteThrough if there is none.
func ParseWritePolicy(name string) WritePolicy {
	return WritePolicy(max(0, slices.Index(writePolicies(), name)))
}

// HostPages returns the number of pages of host memory by hicache_ratio, for a token pool of the given number of
// pages. SGLang adds one page.
func HostPages(pages, pageTokens int, ratio float64) int {
	return int(float64(pages*pageTokens)*ratio)/pageTokens + 1
}

// loadLeast is the minimum number of tokens that SGLang loads from the host.
const loadLeast = 10

// tiers is the host memory of a core and its copies in progress.
type tiers struct {
	HiCache
	core *Core
	host *radix.Host

	queue   []int32 // nodes with copies to the host that were not submitted yet
	queued  int     // tokens of the nodes in queue
	writes  []transfer
	loads   []transfer
	wrote   sim.Time  // latest known end of a copy to the host
	blocked []float64 // durations of copies in ns that the planner of the next pass waits for, one after the other
	found   radix.Tiers
	storage *storage // storage behind host memory; nil: none
	written int      // tokens copied to the host by the pass that ends
	loaded  int      // tokens loaded by the pass that ends
}

// transfer is a copy in progress.
type transfer struct {
	nodes []int32
	nanos float64
	end   sim.Time
	known bool // end is known; if not, the pass that the copy waits for has not begun or ended yet
}

// attachHost adds host memory behind the pool.
func (c *Core) attachHost(h HiCache) {
	t := &tiers{HiCache: h, core: c}
	t.host = &radix.Host{Pages: h.Pages, Copier: t}
	switch h.Policy {
	case WriteThrough:
		t.host.Walks = 1
	case WriteThroughSelective:
		t.host.Walks = 2
	}
	c.pages.tree.AttachHost(t.host)
	c.tiers = t
	if h.Storage.On {
		t.attachStorage()
	}
}

// checkHiCache returns an error about invalid host memory settings of c.
func checkHiCache(c Config) error {
	h := c.HiCache
	switch {
	case h.Pages < 0 || h.Pages > maxPoolTokens/c.PageTokens || h.Pages > math.MaxInt32:
		return fmt.Errorf("host memory of %d pages of %d tokens: must be at most %d pages and 2^40 tokens", h.Pages, c.PageTokens, math.MaxInt32)
	case h.Pages == 0:
		return nil
	case c.Role == scheduler.Decode:
		return errors.New("enable_hierarchical_cache is not supported on a decode worker: its loads are not simulated")
	case c.Window > 0:
		return errors.New("enable_hierarchical_cache with layers that have a separate pool requires disable_hybrid_swa_memory: host memory behind two pools is not simulated")
	case c.Speculation != nil:
		return errors.New("enable_hierarchical_cache and speculative decoding are mutually exclusive: both together were not compared with SGLang")
	case !c.PrefixCaching:
		return fmt.Errorf("enable_hierarchical_cache requires enable_prefix_caching")
	case h.Layers <= 0:
		return fmt.Errorf("hicache_layers is %d, must be > 0", h.Layers)
	case !(h.ToHostGBPerSecond >= 0) || !(h.ToGPUGBPerSecond >= 0):
		return fmt.Errorf("bandwidths between GPU and host are %v and %v, must be >= 0", h.ToHostGBPerSecond, h.ToGPUGBPerSecond)
	}
	return checkStorage(c)
}

// nanosOf returns the duration of copying tokens at a bandwidth, in whole ns.
func (t *tiers) nanosOf(tokens int, gbps float64) float64 {
	if gbps == 0 {
		return 0
	}
	return math.RoundToEven(float64(tokens) * float64(t.BytesPerToken) / gbps)
}

// Copy implements radix.Copier. Copies that begin together are one transfer.
func (t *tiers) Copy(n int32) {
	t.queue = append(t.queue, n)
	t.queued += t.core.pages.tree.At(n).Size() * t.core.PageTokens
	t.storage.noteCopy(n)
}

// CopyNow implements radix.Copier. The planner waits for the copy.
func (t *tiers) CopyNow(pages int) {
	t.written += pages * t.core.PageTokens
	t.blocked = append(t.blocked, t.nanosOf(pages*t.core.PageTokens, t.ToHostGBPerSecond))
}

// submitWrites submits the queued copies. The copies begin when the pass in flight has ended, or at now if there is
// none.
func (t *tiers) submitWrites(now sim.Time, inFlight bool) {
	if len(t.queue) == 0 {
		return
	}
	w := t.newTransfer(&t.writes)
	w.nodes = append(w.nodes, t.queue...)
	w.nanos = t.nanosOf(t.queued, t.ToHostGBPerSecond)
	t.written += t.queued
	t.queue, t.queued = t.queue[:0], 0
	if !inFlight {
		t.timeWrites(now)
	}
}

// newTransfer appends an empty transfer to the list and reuses the memory of an earlier transfer.
func (t *tiers) newTransfer(all *[]transfer) *transfer {
	if len(*all) < cap(*all) {
		*all = (*all)[:len(*all)+1]
	} else {
		*all = append(*all, transfer{})
	}
	w := &(*all)[len(*all)-1]
	*w = transfer{nodes: w.nodes[:0]}
	return w
}

// timeWrites sets the ends of copies to the host that waited for a pass. Copies can begin at the instant from.
func (t *tiers) timeWrites(from sim.Time) {
	for i := range t.writes {
		if w := &t.writes[i]; !w.known {
			w.end, w.known = max(from, t.wrote)+sim.Time(w.nanos/1e6), true
			t.wrote = w.end
		}
	}
}

// waitsForPass reports whether a copy to the host waits for the end of a pass.
func (t *tiers) waitsForPass() bool {
	return t != nil && len(t.writes) > 0 && !t.writes[len(t.writes)-1].known
}

// noteDone releases the locks of copies that have ended. SGLang checks these copies before it plans a pass.
func (t *tiers) noteDone(now sim.Time, inFlight bool) {
	t.submitWrites(now, inFlight)
	seen := t.storage.readNews(now)
	t.writes = endTransfers(t.writes, now, t.endCopy)
	t.loads = endTransfers(t.loads, now, t.host.EndLoad)
	t.storage.drain(seen)
}

// endCopy ends the copy of node n to the host and starts its copy to storage.
func (t *tiers) endCopy(n int32) {
	t.host.EndCopy(n)
	t.storage.backUp(n)
}

// endTransfers ends completed transfers, in order, and returns the remaining transfers.
func endTransfers(all []transfer, now sim.Time, end func(n int32)) []transfer {
	done := 0
	for ; done < len(all) && all[done].known && all[done].end <= now; done++ {
		for _, n := range all[done].nodes {
			end(n)
		}
	}
	for i := done; i < len(all); i++ {
		all[i-done], all[i] = all[i], all[i-done]
	}
	return all[:len(all)-done]
}

// nextEnd returns the next end of a copy after now; the result is false if there is none.
func (t *tiers) nextEnd(now sim.Time) (sim.Time, bool) {
	next := t.storage.nextEnd(now)
	for _, all := range [][]transfer{t.writes, t.loads} {
		for i := range all {
			if w := &all[i]; w.known && w.end > now {
				next = min(next, w.end)
			}
		}
	}
	return next, !math.IsInf(float64(next), 1)
}

// loadPrefix loads the part of r's prefix that is only in host memory, and evicts other nodes for it. loadPrefix
// returns false without a load if there are fewer tokens than loadLeast, or if the pool lacks memory.
func (t *tiers) loadPrefix(r *request, f *flight, tokens int) bool {
	if tokens < loadLeast {
		return false
	}
	n := t.found.AllNode
	t.host.Pin(n)
	if t.core.pages.evictTokens(tokens); t.core.pages.free < tokens {
		t.host.Unpin(n)
		return false
	}
	t.core.pages.free -= tokens
	t.host.BeginLoad(n)
	if f.loaded == 0 {
		t.newTransfer(&t.loads)
	}
	w := &t.loads[len(t.loads)-1]
	w.nodes = append(w.nodes, n)
	f.loaded += tokens
	t.core.pages.tree.Lock(n)
	t.core.pages.tree.Unlock(r.node)
	r.node, r.prot = n, r.prot+tokens
	return true
}

// beginLoads starts the loads of the pass, which begin with the pass.
func (t *tiers) beginLoads(f *flight, now sim.Time) {
	if f.loaded == 0 {
		return
	}
	for i := range t.loads {
		if w := &t.loads[i]; !w.known {
			w.nanos = t.nanosOf(f.loaded, t.ToGPUGBPerSecond)
			w.end, w.known = now+sim.Time(w.nanos/1e6), true
			break
		}
	}
	t.loaded += f.loaded
}

// stretchPass returns the duration of a pass in which each layer waits for its part of the load, in ms.
func (t *tiers) stretchPass(f *flight, ms float64) float64 {
	if f.loaded == 0 {
		return ms
	}
	load := int64(t.nanosOf(f.loaded, t.ToGPUGBPerSecond))
	compute := int64(math.RoundToEven(ms * 1e6))
	layers := int64(t.Layers)
	return float64(max(compute+load/layers, load+compute/layers)) / 1e6
}

// recordTransfers records the tokens sent to and loaded from the host since the previous pass.
func (t *tiers) recordTransfers(p *scheduler.Pass) {
	p.ToHost, p.FromHost = t.written, t.loaded
	t.written, t.loaded = 0, 0
}

// endPass ends a pass: copies that waited for its end begin. If the planner of the pass waited for copies longer than
// the pass took, the pass ends with these copies.
func (t *tiers) endPass(p *scheduler.Pass) {
	t.timeWrites(p.End)
	if len(t.blocked) > 0 {
		p.End = t.waitBlocked(p.End)
		p.Nanos = p.Nanos[:0]
	}
}

// waitBlocked returns the end of the copies that the planner waits for.
func (t *tiers) waitBlocked(from sim.Time) sim.Time {
	for _, ns := range t.blocked {
		from = max(from, t.wrote) + sim.Time(ns/1e6)
		t.wrote = from
	}
	t.blocked = t.blocked[:0]
	return from
}

// match looks up the first pages of s in the cache and in host memory.
func (t *tiers) match(s *radix.Sequence, pages int32) radix.Tiers {
	t.found = t.core.pages.tree.MatchTiers(s, pages)
	return t.found
}

// findTiered is findPrefix with host memory: it locks and counts the part on the device.
func (t *tiers) findTiered(r *request) int {
	f := t.match(&r.seq, t.core.pages.pagesOf(r.length()-1))
	t.core.pages.tree.Lock(f.DeviceNode)
	r.node, r.prot = f.DeviceNode, int(f.Device)*t.core.PageTokens
	return r.prot
}

// hostPrefix returns the number of tokens of the latest lookup that are only in host memory.
func (t *tiers) hostPrefix() int {
	if t == nil {
		return 0
	}
	return int(t.found.All-t.found.Device) * t.core.PageTokens
}

// waitForCopies makes p a pass that ends with the copies that its planner waited for. If nothing can run, the pass
// ends with the next copy. waitForCopies returns false if there are no such copies.
func (t *tiers) waitForCopies(p *scheduler.Pass) bool {
	switch {
	case len(t.blocked) > 0:
		p.End = t.waitBlocked(p.Start)
	case t.core.next.planned:
	default:
		for !t.core.next.planned && (len(t.queue) > 0 || t.storage.hasNews()) { // planPass submits the copies
			t.core.planPass(t.core.next, p)
		}
		if t.core.next.planned {
			return false
		}
		if end, ok := t.nextEnd(p.Start); ok {
			p.End, p.Waits = end, true
		}
	}
	if p.End == p.Start {
		return false
	}
	p.Gap, t.core.lastEnd = p.End-p.Start, p.End
	t.recordTransfers(p)
	t.core.describeState(p)
	t.core.check()
	return true
}

// dropFlight discards the planned pass.
func (c *Core) dropFlight(now sim.Time) {
	if c.tiers != nil {
		c.tiers.beginLoads(c.next, now)
	}
	c.next.clear()
}
