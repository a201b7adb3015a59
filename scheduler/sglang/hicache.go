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
	Pages             int         // of host memory; 0: none
	Policy            WritePolicy // when pages are copied to the host
	BytesPerToken     int         // of the KV cache; 0: copies take no time
	ToHostGBPerSecond float64     // 10^9 bytes per second; 0: copies take no time
	ToGPUGBPerSecond  float64     // the same, back
	Layers            int         // of the model, > 0: what is loaded arrives layer by layer
	Storage           Storage     // behind it
}

// WritePolicy is when pages are copied to the host.
type WritePolicy uint8

const (
	WriteThrough          WritePolicy = iota // when they are cached
	WriteThroughSelective                    // when they are cached a second time
	WriteBack                                // when the device evicts them
)

// writePolicies returns their names.
func writePolicies() []string {
	return []string{"write_through", "write_through_selective", "write_back"}
}

// ParseWritePolicy returns the policy of that name, WriteThrough if there is none.
func ParseWritePolicy(name string) WritePolicy {
	return WritePolicy(max(0, slices.Index(writePolicies(), name)))
}

// HostPages returns the pages of host memory behind n of a token pool, by hicache_ratio: SGLang adds one.
func HostPages(pages, pageTokens int, ratio float64) int {
	return int(float64(pages*pageTokens)*ratio)/pageTokens + 1
}

// loadLeast is the number of tokens that SGLang loads from the host at least.
const loadLeast = 10

// tiers is the host memory of a core, and what is being copied.
type tiers struct {
	HiCache
	core *Core
	host *radix.Host

	queue   []int32 // nodes with copies to the host that have not been submitted
	queued  int     // their tokens
	writes  []transfer
	loads   []transfer
	wrote   sim.Time  // the end of the latest copy to the host that is known
	blocked []float64 // ns: copies that the planner of the next pass waits for, one after the other
	found   radix.Tiers
	storage *storage // behind host memory, nil: none
	written int      // tokens copied to the host by the pass that ends
	loaded  int      // tokens loaded by the pass that ends
}

// transfer is a copy that is in progress.
type transfer struct {
	nodes []int32
	nanos float64
	end   sim.Time
	known bool // end is known; before, the pass that it waits for has not ended, or begun
}

// attachHost puts host memory behind the pool.
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

// checkHiCache returns an error that names what is wrong with the host memory of c.
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

// nanosOf returns how long tokens take at a bandwidth, in whole ns.
func (t *tiers) nanosOf(tokens int, gbps float64) float64 {
	if gbps == 0 {
		return 0
	}
	return math.RoundToEven(float64(tokens) * float64(t.BytesPerToken) / gbps)
}

// Copy is radix.Copier: copies that are begun together are one transfer.
func (t *tiers) Copy(n int32) {
	t.queue = append(t.queue, n)
	t.queued += t.core.pages.tree.At(n).Size() * t.core.PageTokens
	t.storage.noteCopy(n)
}

// CopyNow is radix.Copier: the planner waits for the copy.
func (t *tiers) CopyNow(pages int) {
	t.written += pages * t.core.PageTokens
	t.blocked = append(t.blocked, t.nanosOf(pages*t.core.PageTokens, t.ToHostGBPerSecond))
}

// submitWrites submits the copies that are queued. They begin when the pass in flight has ended, and at
// now if there is none.
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

// newTransfer appends an empty transfer to the list, in the memory of an earlier one.
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

// timeWrites times the copies to the host that wait for a pass, which can begin now.
func (t *tiers) timeWrites(from sim.Time) {
	for i := range t.writes {
		if w := &t.writes[i]; !w.known {
			w.end, w.known = max(from, t.wrote)+sim.Time(w.nanos/1e6), true
			t.wrote = w.end
		}
	}
}

// waitsForPass reports whether a copy to the host waits for a pass to end.
func (t *tiers) waitsForPass() bool {
	return t != nil && len(t.writes) > 0 && !t.writes[len(t.writes)-1].known
}

// noteDone releases the locks of copies that have ended, which SGLang reads before it plans a pass.
func (t *tiers) noteDone(now sim.Time, inFlight bool) {
	t.submitWrites(now, inFlight)
	seen := t.storage.readNews(now)
	t.writes = endTransfers(t.writes, now, t.endCopy)
	t.loads = endTransfers(t.loads, now, t.host.EndLoad)
	t.storage.drain(seen)
}

// endCopy notes that n has been copied to the host, from where it goes to storage.
func (t *tiers) endCopy(n int32) {
	t.host.EndCopy(n)
	t.storage.backUp(n)
}

// endTransfers ends completed transfers, in order, and returns the rest.
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

// nextEnd returns when the next copy ends that has not by now.
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

// loadPrefix loads the part of r's prefix that is in host memory alone, for which it evicts other nodes,
// and reports whether it does; few tokens are rather computed.
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

// beginLoads times what the pass loads, which begins with it.
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

// stretchPass returns the duration of a pass in which each layer waits for its part of the load.
func (t *tiers) stretchPass(f *flight, ms float64) float64 {
	if f.loaded == 0 {
		return ms
	}
	load := int64(t.nanosOf(f.loaded, t.ToGPUGBPerSecond))
	compute := int64(math.RoundToEven(ms * 1e6))
	layers := int64(t.Layers)
	return float64(max(compute+load/layers, load+compute/layers)) / 1e6
}

// tellTokens enters how many tokens were sent to the host since the pass before, and fetched from it.
func (t *tiers) tellTokens(p *scheduler.Pass) {
	p.ToHost, p.FromHost = t.written, t.loaded
	t.written, t.loaded = 0, 0
}

// endPass notes the end of a pass: copies that waited for it begin. If its planner waited for copies
// longer than the pass took, the pass ends with them.
func (t *tiers) endPass(p *scheduler.Pass) {
	t.timeWrites(p.End)
	if len(t.blocked) > 0 {
		p.End = t.waitBlocked(p.End)
		p.Nanos = p.Nanos[:0]
	}
}

// waitBlocked returns when the copies have ended that the planner waits for.
func (t *tiers) waitBlocked(from sim.Time) sim.Time {
	for _, ns := range t.blocked {
		from = max(from, t.wrote) + sim.Time(ns/1e6)
		t.wrote = from
	}
	t.blocked = t.blocked[:0]
	return from
}

// match looks up the first pages of s.
func (t *tiers) match(s *radix.Sequence, pages int32) radix.Tiers {
	t.found = t.core.pages.tree.MatchTiers(s, pages)
	return t.found
}

// findTiered is findPrefix with host memory: it locks, and counts, what is on the device.
func (t *tiers) findTiered(r *request) int {
	f := t.match(&r.seq, t.core.pages.pagesOf(r.length()-1))
	t.core.pages.tree.Lock(f.DeviceNode)
	r.node, r.prot = f.DeviceNode, int(f.Device)*t.core.PageTokens
	return r.prot
}

// hostPrefix returns how many tokens of what was looked up last are in host memory alone.
func (t *tiers) hostPrefix() int {
	if t == nil {
		return 0
	}
	return int(t.found.All-t.found.Device) * t.core.PageTokens
}

// waitForCopies makes p a pass that ends with the copies that its planner had to wait for, or, where nothing can
// run, with the next copy, and reports whether there are any.
func (t *tiers) waitForCopies(p *scheduler.Pass) bool {
	switch {
	case len(t.blocked) > 0:
		p.End = t.waitBlocked(p.Start)
	case t.core.next.planned:
	default:
		for !t.core.next.planned && (len(t.queue) > 0 || t.storage.hasNews()) { // which the next check submits
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
	t.tellTokens(p)
	t.core.describeState(p)
	t.core.check()
	return true
}

// dropFlight forgets the pass that is planned.
func (c *Core) dropFlight(now sim.Time) {
	if c.tiers != nil {
		c.tiers.beginLoads(c.next, now)
	}
	c.next.clear()
}
