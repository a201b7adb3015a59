package trtllm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// Retention configures which blocks without references are evicted last: kv_cache_retention_config of all requests.
type Retention struct {
	Ranges    []TokenRange // ranges of prompt tokens, in order, without overlap
	Answer    int          // decode_retention_priority: priority of blocks of answers, 0 to 100
	AnswerFor sim.Time     // decode_duration_ms; 0: forever
}

// TokenRange is the priority of the prompt blocks that begin with a token of a range.
type TokenRange struct {
	First, End int      // End is the token after the range; 0 means the end of the prompt
	Priority   int      // 0 to 100; blocks with the lowest priority are evicted first
	For        sim.Time // ms without references after which the priority becomes DefaultPriority; 0: forever
}

const (
	// DefaultPriority is the retention priority of blocks without a configured priority.
	DefaultPriority = 35
	// topPriority is the highest retention priority.
	topPriority = 100
	// leastOffloaded is the lowest retention priority of blocks that are moved to host memory.
	leastOffloaded = 30
)

// ParseRanges parses token ranges separated by commas, each as FIRST-END:PRIORITY or FIRST-END:PRIORITY:MS. END is
// optional. An error describes the expected form.
func ParseRanges(text string) (all []TokenRange, err error) {
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 && (all[n-1].End == 0 || all[n-1].End > r.First) {
			return nil, excerpt.Errorf("range %q to begin behind the range before it", part)
		}
		all = append(all, r)
	}
	return all, nil
}

func parseRange(text string) (r TokenRange, err error) {
	wrong := excerpt.Errorf("range %q to be FIRST-END:PRIORITY or FIRST-END:PRIORITY:MS", text)
	fields := strings.Split(text, ":")
	first, end, ok := strings.Cut(fields[0], "-")
	if !ok || len(fields) < 2 || len(fields) > 3 {
		return r, wrong
	}
	var for32 int32
	for _, x := range []struct {
		text string
		dst  *int
	}{{first, &r.First}, {end, &r.End}, {fields[1], &r.Priority}} {
		if x.text == "" && x.dst == &r.End {
			continue
		}
		n, err := strconv.ParseUint(x.text, 10, 31)
		if err != nil {
			return r, wrong
		}
		*x.dst = int(n)
	}
	if len(fields) == 3 {
		n, err := strconv.ParseUint(fields[2], 10, 31)
		if err != nil || n == 0 {
			return r, wrong
		}
		for32 = int32(n)
	}
	r.For = sim.Time(for32)
	switch {
	case end != "" && r.End <= r.First:
		return r, excerpt.Errorf("range %q to end behind its first token", text)
	case r.Priority > topPriority:
		return r, excerpt.Errorf("priority %d of range %q to be 0 to %d", r.Priority, text, topPriority)
	}
	return r, nil
}

func (r *Retention) check(reuse bool) error {
	if r == nil {
		return nil
	}
	if !reuse {
		return fmt.Errorf("retention priorities require enable_prefix_caching")
	}
	if r.Answer < 0 || r.Answer > topPriority || !(r.AnswerFor >= 0) {
		return fmt.Errorf("decode_retention_priority is %d for %v ms, must be 0 to %d for at least 0 ms", r.Answer, r.AnswerFor, topPriority)
	}
	return nil
}

// rangeOf returns the range for a prompt block that begins with the given token, or nil if there is none.
func (r *Retention) rangeOf(token int) *TokenRange {
	for i := range r.Ranges {
		if x := &r.Ranges[i]; token >= x.First && (x.End == 0 || token < x.End) {
			return x
		}
	}
	return nil
}

// kept is the time for which a block keeps its retention priority.
type kept struct {
	last  sim.Time // ms without references; 0: forever
	since int64    // number of the release that started this time; 0: not started
}

// retention is the state of the retention priorities of a pool.
type retention struct {
	*Retention
	kept     []kept // retention time of each block, by blockID
	expiring heap.Heap[sim.Time, int64, blockID]
	releases int64
}

func (t *retention) isOn() bool { return t.Retention != nil }

// keptOf returns the entry of a block.
func (t *retention) keptOf(b blockID) *kept {
	for int(b) >= len(t.kept) {
		t.kept = append(t.kept, kept{})
	}
	return &t.kept[b]
}

// waiting contains the free queues of a memory.
type waiting struct {
	usual  list   // blocks with DefaultPriority
	others []list // queues by priority, except DefaultPriority; nil if all blocks have it
	least  int    // no block has a lower priority than this
}

func newWaiting(c *Config) waiting {
	none := list{noBlock, noBlock}
	w := waiting{usual: none}
	if c.Retention != nil {
		w.others = make([]list, topPriority+1)
		for i := range w.others {
			w.others[i] = none
		}
	}
	return w
}

// of returns the queue for blocks with the given priority.
func (w *waiting) of(priority uint8) *list {
	w.least = min(w.least, int(priority))
	if priority == DefaultPriority || w.others == nil {
		return &w.usual
	}
	return &w.others[priority]
}

// front returns the queue with the next block to allocate. The front queue is the usual queue if no other queue has a
// block, or if unused blocks come first.
func (w *waiting) front(fresh int) *list {
	for i := w.least; i < len(w.others); i++ {
		if i == DefaultPriority {
			if w.least = i; fresh > 0 || w.usual.first != noBlock {
				break
			}
		} else if w.others[i].first != noBlock {
			w.least = i
			return &w.others[i]
		}
	}
	return &w.usual
}

// hasRoom reports whether there is a block to allocate.
func (w *waiting) hasRoom(fresh int) bool { return fresh > 0 || w.front(0).first != noBlock }

// retain sets the priority of block i of r, which r has just allocated or found.
func (p *pool) retain(b blockID, r *request, i int, found bool) {
	t := &p.retention
	if !t.isOn() {
		return
	}
	if start := i * p.cfg.BlockTokens; start >= r.prompt {
		p.setPriority(b, t.Answer, t.AnswerFor)
	} else if x := t.rangeOf(start); x != nil {
		p.setPriority(b, x.Priority, x.For)
	} else if found {
		p.setPriority(b, int(p.all[b].priority), 0)
	} else {
		p.setPriority(b, DefaultPriority, 0)
	}
}

func (p *pool) setPriority(b blockID, priority int, last sim.Time) {
	p.all[b].priority = uint8(priority)
	p.retention.keptOf(b).last = last
}

// noteReleased starts the time for which a block without references keeps its priority.
func (p *pool) noteReleased(b blockID) {
	t := &p.retention
	if !t.isOn() {
		return
	}
	if k := t.keptOf(b); k.last > 0 && p.all[b].priority != DefaultPriority {
		t.releases++
		k.since = t.releases
		t.expiring.Push(p.now+k.last, k.since, b)
	}
}

// noteTaken stops the time that noteReleased started.
func (p *pool) noteTaken(b blockID) {
	if p.retention.isOn() {
		p.retention.keptOf(b).since = 0
	}
}

// expire moves blocks with an expired priority to the end of the usual queue.
func (p *pool) expire() {
	t := &p.retention
	for len(t.expiring) > 0 && t.expiring[0].Key <= p.now {
		x := t.expiring.Pop()
		if t.keptOf(x.Value).since != x.Tie {
			continue
		}
		k := &p.all[x.Value]
		unlinkBlock(p, p.queueOf(k), x.Value, queueLinks)
		k.priority, t.kept[x.Value].since = DefaultPriority, 0
		linkBlock(p, p.queueOf(k), x.Value, queueLinks)
	}
}
