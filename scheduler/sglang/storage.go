package sglang

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// Storage is the storage behind host memory. Storage has unlimited capacity.
type Storage struct {
	On                   bool
	Policy               PrefetchPolicy
	Threshold            int     // minimum number of fetched tokens, > 0
	Timeout              float64 // base timeout in s, under PrefetchTimeout
	TimeoutPerKiToken    float64 // timeout in s per 1024 requested tokens, added to Timeout
	ToStorageGBPerSecond float64 // 10^9 bytes per second; 0: writes take no time
	ToHostGBPerSecond    float64 // 10^9 bytes per second; 0: reads take no time
}

// PrefetchPolicy is how long a request waits for data from storage.
type PrefetchPolicy uint8

const (
	PrefetchTimeout    PrefetchPolicy = iota // requests wait until a timeout
	PrefetchBestEffort                       // requests do not wait
	PrefetchComplete                         // requests wait until all data has arrived
)

// prefetchPolicies returns the names of the policies.
func prefetchPolicies() []string { return []string{"timeout", "best_effort", "wait_complete"} }

// ParsePrefetchPolicy returns the policy with the given name, or PrefetchTimeout if there is none.
func ParsePrefetchPolicy(name string) PrefetchPolicy {
	return PrefetchPolicy(max(0, slices.Index(prefetchPolicies(), name)))
}

// checkStorage returns an error about invalid storage settings of c.
func checkStorage(c Config) error {
	s := &c.HiCache.Storage
	switch {
	case !s.On:
		return nil
	case c.HiCache.Policy == WriteBack:
		return errors.New("hicache_storage_backend with hicache_write_policy write_back is not supported, must be write_through or write_through_selective: write_back was not compared with SGLang")
	case s.Threshold <= 0:
		return fmt.Errorf("prefetch_threshold is %d, must be > 0", s.Threshold)
	case !(s.Timeout >= 0) || !(s.TimeoutPerKiToken >= 0):
		return fmt.Errorf("prefetch_timeout_base is %v and prefetch_timeout_per_ki_token %v, must be >= 0", s.Timeout, s.TimeoutPerKiToken)
	case !(s.ToStorageGBPerSecond >= 0) || !(s.ToHostGBPerSecond >= 0):
		return fmt.Errorf("bandwidths between host and storage are %v and %v, must be >= 0", s.ToStorageGBPerSecond, s.ToHostGBPerSecond)
	}
	return nil
}

// storage is the storage behind a core's host memory. The methods of a nil storage do nothing.
type storage struct {
	Storage
	*tiers
	pages         map[radix.StoredPage]struct{}
	reads, writes disk
	copying       map[int32]int32 // nodes in copies to the host, with the first page of the node at the start of the copy
	joined        []visit         // requests that joined the queue and were not looked up yet
	asked         []*fetch        // fetches that were looked up and not checked yet
	arrived       []arrival       // data that was read and not checked yet
	written       []int32         // nodes that were written and not checked yet
	void          int             // number of host memory pages to release
	occupied      int             // number of requested tokens
	now           sim.Time        // time of the latest check
}

// fetch is the data that a request fetches from storage.
type fetch struct {
	r       *request // request of the fetch; nil: the fetch is over
	seq     radix.Sequence
	anchor  int32 // the parent node of the fetched pages
	from    int32 // index of the first requested page; the next fields are numbers of pages
	asked   int32
	found   int32 // pages that are in storage
	room    int32 // pages with reserved host memory
	landed  int32 // pages that have arrived, as of the latest check
	stopped bool
}

// arrival is a report about a fetch: the number of arrived pages, and whether the fetch is over.
type arrival struct {
	fetch *fetch
	pages int32
	over  bool
}

// attachStorage adds storage behind the host memory.
func (t *tiers) attachStorage() {
	s := &storage{Storage: t.HiCache.Storage, tiers: t, pages: make(map[radix.StoredPage]struct{}), copying: make(map[int32]int32)}
	s.reads.duty, s.writes.duty = reading{s}, writing{s}
	t.storage = s
}

// reading is the duty of the disk that reads.
type reading struct{ *storage }

func (s reading) timeOf(pages int32) float64 {
	return s.nanosOf(int(pages)*s.core.PageTokens, s.ToHostGBPerSecond)
}

func (s reading) endBatch(j *job) { s.arrived = append(s.arrived, arrival{j.fetch, j.done, false}) }
func (s reading) endJob(j *job)   { s.arrived = append(s.arrived, arrival{j.fetch, j.done, true}) }

// writing is the duty of the disk that writes.
type writing struct{ *storage }

func (s writing) timeOf(pages int32) float64 {
	return s.nanosOf(int(pages)*s.core.PageTokens, s.ToStorageGBPerSecond)
}

func (s writing) endBatch(j *job) {
	for i := j.from; i < j.from+j.done; i++ {
		s.pages[s.core.pages.tree.StoredPageOf(j.seq, i)] = struct{}{}
	}
}

func (s writing) endJob(j *job) { s.written = append(s.written, j.node) }

// noteCopy records that n is being copied to the host.
func (s *storage) noteCopy(n int32) {
	if s != nil {
		s.copying[n] = s.core.pages.tree.At(n).From
	}
}

// backUp writes the pages copied with n to storage. The node may have been split since the copy began.
func (s *storage) backUp(n int32) {
	if s == nil {
		return
	}
	from := s.copying[n]
	delete(s.copying, n)
	s.writeFrom(n, from)
}

// writeFrom writes all pages from index from up to the end of n.
func (s *storage) writeFrom(n, from int32) {
	x := s.core.pages.tree.At(n)
	if x.From > from {
		s.writeFrom(x.Parent, from)
	}
	s.host.Pin(n)
	seq := x.Seq
	s.writes.add(&job{seq: &seq, from: x.From, to: x.To, node: n, put: s.now})
}

// noteJoin records that r has joined the queue.
func (t *tiers) noteJoin(r *request) {
	if t != nil && t.storage != nil {
		t.storage.joined = append(t.storage.joined, visit{r, r.epoch})
	}
}

// lookUpStorage looks up the requests that have joined the queue in storage.
func (t *tiers) lookUpStorage(now sim.Time) {
	if t == nil || t.storage == nil {
		return
	}
	s := t.storage
	for _, v := range s.joined {
		if !v.isVoid() {
			s.lookUp(v.request, now)
		}
	}
	s.joined = s.joined[:0]
}

// lookUp asks storage for the pages of r that are not cached.
func (s *storage) lookUp(r *request, now sim.Time) {
	c := s.core
	pages := c.pages.pagesOf(r.length() - 1)
	found := s.match(&r.seq, pages)
	asked := pages - found.All
	if !s.host.IsCopied(found.AllNode) || int(asked)*c.PageTokens < s.Threshold || s.isLimited() {
		return
	}
	s.writes.advance(now)
	f := &fetch{r: r, seq: r.seq, anchor: found.AllNode, from: found.All, asked: asked}
	for f.found < asked && s.has(f, f.found) {
		f.found++
	}
	s.host.Pin(f.anchor)
	s.occupied += int(asked) * c.PageTokens
	r.fetch, s.asked = f, append(s.asked, f)
}

// has reports whether page i of a fetch is in storage.
func (s *storage) has(f *fetch, i int32) bool {
	_, ok := s.pages[s.core.pages.tree.StoredPageOf(&f.seq, f.from+i)]
	return ok
}

// isLimited reports whether the requested tokens reach the limit of half of the host memory, so that no further fetch
// may start.
func (s *storage) isLimited() bool { return s.occupied >= s.host.Pages*s.core.PageTokens/2 }

// news counts the reports to process.
type news struct{ asked, arrived, written, void int }

// readNews returns the reports up to now.
func (s *storage) readNews(now sim.Time) (n news) {
	if s == nil {
		return n
	}
	s.now = now
	s.advance()
	return news{len(s.asked), len(s.arrived), len(s.written), s.void}
}

func (s *storage) advance() {
	s.reads.advance(s.now)
	s.writes.advance(s.now)
}

// hasNews reports whether the next check has reports to process.
func (s *storage) hasNews() bool {
	return s != nil && len(s.asked)+len(s.arrived)+len(s.written)+s.void > 0
}

// drain processes the counted reports in the order of SGLang.
func (s *storage) drain(n news) {
	if s == nil {
		return
	}
	for _, f := range s.asked[:n.asked] {
		s.begin(f)
	}
	s.asked = slices.Delete(s.asked, 0, n.asked)
	for _, a := range s.arrived[:n.arrived] {
		s.noteArrival(a)
	}
	s.arrived = slices.Delete(s.arrived, 0, n.arrived)
	for _, node := range s.written[:n.written] {
		s.host.Unpin(node)
	}
	s.written = slices.Delete(s.written, 0, n.written)
	s.host.ReleaseFetch(n.void)
	s.void -= n.void
	s.advance()
}

// begin starts to read the pages found in storage, if they reach the threshold and host memory has room.
func (s *storage) begin(f *fetch) {
	if f.r == nil {
		return
	}
	tokens := s.core.PageTokens
	least := (s.Threshold + tokens - 1) / tokens
	if int(f.found) >= least {
		f.room = int32(s.host.ReserveFetch(int(f.found), least))
	}
	if f.room == 0 {
		s.retire(f)
		return
	}
	s.reads.add(&job{seq: &f.seq, from: f.from, to: f.from + f.room, fetch: f, put: s.now})
}

// noteArrival records pages that have arrived in host memory.
func (s *storage) noteArrival(a arrival) {
	f := a.fetch
	if f.r != nil {
		f.landed = a.pages
	}
	if a.over {
		if f.r != nil {
			s.insert(f)
		}
		s.void += int(f.room - f.landed)
	}
}

// insert adds the arrived pages to the tree.
func (s *storage) insert(f *fetch) {
	s.host.Fill(f.anchor, &f.seq, f.from, f.from+f.landed)
	s.retire(f)
}

// retire ends a fetch.
func (s *storage) retire(f *fetch) {
	s.host.Unpin(f.anchor)
	s.occupied -= int(f.asked) * s.core.PageTokens
	f.r.fetch, f.r = nil, nil
}

// endFetch reports whether r may be admitted. If r waits no longer, endFetch ends its fetch and adds the arrived
// pages to the tree.
func (t *tiers) endFetch(r *request) bool {
	f := r.fetch
	if f == nil {
		return true
	}
	s := t.storage
	if !s.gives(r, f) {
		return false
	}
	f.stopped = true
	if f.room == 0 {
		s.retire(f)
	} else {
		s.insert(f)
	}
	return true
}

// gives reports whether r no longer waits for storage.
func (s *storage) gives(r *request, f *fetch) bool {
	switch s.Policy {
	case PrefetchBestEffort:
		return true
	case PrefetchComplete:
		return false
	}
	if r.deadline == 0 {
		perPage := float64(s.core.PageTokens) / 1024 * s.TimeoutPerKiToken
		wait := s.Timeout + float64(float64(f.asked)*perPage)
		r.deadline = s.now + sim.Time(wait*1e3+1e-6)
		return false
	}
	return s.now >= r.deadline && (f.room == 0 || f.landed < f.room)
}

// dropFetch stops the fetch of r, which is being canceled.
func (t *tiers) dropFetch(r *request) {
	f := r.fetch
	if f == nil {
		return
	}
	s := t.storage
	f.stopped = true
	s.void += int(f.landed)
	s.retire(f)
}

// isStoring reports whether transfers between host and storage are in progress or pending.
func (t *tiers) isStoring() bool {
	if t == nil || t.storage == nil {
		return false
	}
	s := t.storage
	return len(t.writes)+len(s.joined)+len(s.reads.jobs)+len(s.writes.jobs) > 0 || s.hasNews()
}

// nextEnd returns the next time at which a batch ends or a deadline passes.
func (s *storage) nextEnd(now sim.Time) sim.Time {
	if s == nil {
		return sim.Time(math.Inf(1))
	}
	next := min(s.reads.nextEnd(now), s.writes.nextEnd(now))
	for _, r := range s.core.queue.waiting.All() {
		if r.fetch != nil && r.deadline > now {
			next = min(next, r.deadline)
		}
	}
	return next
}

// openWait processes on an idle engine all reports from before now.
func (t *tiers) openWait(now sim.Time) {
	if t == nil || t.storage == nil {
		return
	}
	if t.core.next.planned {
		return
	}
	for at, ok := t.nextEnd(t.core.lastEnd); ok && at < now; at, ok = t.nextEnd(at) {
		t.noteDone(at, false)
		for t.storage.hasNews() {
			t.noteDone(at, false)
		}
	}
}
