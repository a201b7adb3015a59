package trtllm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/sim"
)

// The literal model of the scheduler stores and compares single tokens.

type mBlock struct {
	refs   int
	parent *mBlock
	key    []int64
	kids   []*mBlock
	host   bool
	used   bool
	name   string // identifies the block in events: the tokens up to the end of the block

	priority int      // retention priority
	last     sim.Time // time for which an unreferenced block keeps its priority; 0: forever
	until    sim.Time // end of this time; 0: not set
}

type mReq struct {
	id                 int
	toks               []int64
	P, M, orig         int
	out, maxNew        int
	arrive             int
	priority           int32
	state              state
	pos, prepop, chunk int
	est, kv            int
	blocks             []*mBlock
	pauses, reused     int
	loaded             int
}

func (r *mReq) gained() int      { return len(r.toks) - r.orig }
func (r *mReq) firstChunk() bool { return r.pos == r.prepop }
func (r *mReq) left() int        { return r.P - r.pos }
func (r *mReq) token(i int) int64 {
	return 1<<40 + int64(r.id)<<20 + int64(i)
}

type mBatch struct {
	ctx, gen, sample []*mReq
	work, loaded     []string
	turn             int // turn in which the pass was planned
}

// mLine is the result of a pass.
type mLine struct {
	work, gen, got, ended []string
	events                []string
	loaded                []string
	free                  int
	turn                  int // turn in which the pass was planned
}

func (l *mLine) String() string {
	return fmt.Sprintf("%v %v got %v ended %v free %d loaded %v events %v", l.work, l.gen, l.got, l.ended, l.free, l.loaded, l.events)
}

type model struct {
	c               Config
	root            *mBlock
	free, host      []*mBlock
	events          []string
	names           map[string]int // numbers of blocks in events, in order of appearance
	loads           []string
	offloads        int
	waiting, active []*mReq
	prev            *mBatch
	turn, waits     int
	paused          int
	failed          string // the reason why further results are undefined
	now             sim.Time
	lost, expired   int
}

func newModel(c Config) *model {
	m := &model{c: c, root: &mBlock{}, names: map[string]int{}}
	for range c.Blocks {
		m.free = append(m.free, &mBlock{priority: DefaultPriority})
	}
	for range c.Host.Blocks {
		m.host = append(m.host, &mBlock{host: true, priority: DefaultPriority})
	}
	return m
}

func (m *model) chop(toks []int64, n int, part bool) (out [][]int64) {
	for i := 0; i < n; i += m.c.BlockTokens {
		key := toks[i:min(i+m.c.BlockTokens, n)]
		if len(key) == m.c.BlockTokens || part {
			out = append(out, slices.Clone(key))
		}
	}
	return out
}

func (b *mBlock) kid(key []int64) *mBlock {
	for _, k := range b.kids {
		if slices.Equal(k.key, key) {
			return k
		}
	}
	return nil
}

func (m *model) match(node *mBlock, key []int64) (part bool, n int, best *mBlock) {
	if len(key) == 0 {
		return false, 0, nil
	}
	if b := node.kid(key); b != nil {
		return len(key) < m.c.BlockTokens, len(key), b
	}
	if m.c.Partial {
		for _, b := range node.kids {
			if !m.c.Copy && (b.refs > 0 || len(b.kids) > 0) {
				continue
			}
			k := 0
			for k < len(b.key) && k < len(key) && b.key[k] == key[k] {
				k++
			}
			if k > n {
				best, n = b, k
			}
		}
	}
	return true, n, best
}

func (m *model) detach(b *mBlock) {
	if b.parent != nil {
		b.parent.kids = slices.DeleteFunc(b.parent.kids, func(x *mBlock) bool { return x == b })
		b.parent = nil
	}
}

func (m *model) drop(b *mBlock) {
	for _, k := range slices.Clone(b.kids) {
		m.drop(k)
	}
	if b.parent != nil {
		m.tell("removed", b)
	}
	m.detach(b)
}

// tell records an event about a block.
func (m *model) tell(what string, b *mBlock) {
	m.events = append(m.events, fmt.Sprintf("%s {%s}", what, b.name))
}

// number replaces the names of blocks in events by numbers.
func (m *model) number(events []string) (all []string) {
	for _, e := range events {
		all = append(all, blockNames.ReplaceAllStringFunc(e, func(name string) string { return fmt.Sprint(numberOf(m.names, name)) }))
	}
	return all
}

var blockNames = regexp.MustCompile(`{[^}]*}`)

// numberOf returns the number of a name, and assigns a new one if it has none.
func numberOf[K comparable](names map[K]int, name K) int {
	if _, ok := names[name]; !ok {
		names[name] = len(names)
	}
	return names[name]
}

func (m *model) walk(toks []int64) (out []*mBlock) {
	node := m.root
	for _, key := range m.chop(toks, len(toks), false) {
		b := node.kid(key)
		if b == nil {
			break
		}
		out, node = append(out, b), b
	}
	return out
}

func (m *model) firstNew(toks []int64) string {
	n := (len(m.walk(toks)) + 1) * m.c.BlockTokens
	if n > len(toks) {
		return ""
	}
	return fmt.Sprint(toks[:n])
}

func (m *model) claim(b *mBlock) {
	m.free = slices.DeleteFunc(m.free, func(x *mBlock) bool { return x == b })
	m.host = slices.DeleteFunc(m.host, func(x *mBlock) bool { return x == b })
}

// onboard moves a claimed block to the device.
func (m *model) onboard(r *mReq, b *mBlock, tokens int) {
	if !b.host {
		return
	}
	x := m.take()
	x.host, x.priority, b.host = true, DefaultPriority, false
	m.tell("device", b)
	m.host = append(m.host, x)
	r.loaded += tokens
}

func (m *model) take() *mBlock {
	if len(m.free) == 0 {
		m.failed = "no free block"
		return &mBlock{}
	}
	b := popLeast(&m.free)
	if b.used && b.priority >= leastOffloaded && len(m.host) > 0 {
		m.offloads++
		h := popLeast(&m.host)
		b.host, h.host = true, false
		if b.parent != nil {
			m.tell("host", b)
		}
		m.host = append(m.host, b)
		b = h
	}
	m.drop(b)
	b.key = nil
	return b
}

// popLeast removes and returns the first block with the lowest priority.
func popLeast(all *[]*mBlock) *mBlock {
	least := slices.MinFunc(*all, func(a, b *mBlock) int { return a.priority - b.priority })
	*all = slices.DeleteFunc(*all, func(x *mBlock) bool { return x == least })
	least.until = 0
	return least
}

// retain sets the priority of a block from its first token in r. found reports whether the block was cached.
func (m *model) retain(b *mBlock, r *mReq, token int, found bool) {
	c := m.c.Retention
	if c == nil {
		return
	}
	b.last, b.until = 0, 0
	if token >= r.P {
		b.priority, b.last = c.Answer, c.AnswerFor
		return
	}
	if !found {
		b.priority = DefaultPriority
	}
	for _, x := range c.Ranges {
		if x.First <= token && (x.End == 0 || token < x.End) {
			b.priority, b.last = x.Priority, x.For
		}
	}
}

// expire moves expired blocks to the end of the queue, in the order in which they expired.
func (m *model) expire() {
	for {
		var next *mBlock
		for _, b := range slices.Concat(m.free, m.host) {
			if b.until > 0 && b.until <= m.now && (next == nil || b.until < next.until) {
				next = b
			}
		}
		if next == nil {
			return
		}
		m.expired++
		next.priority, next.until = DefaultPriority, 0
		for _, all := range []*[]*mBlock{&m.free, &m.host} {
			if n := len(*all); n > 0 {
				*all = slices.DeleteFunc(*all, func(x *mBlock) bool { return x == next })
				if len(*all) < n {
					*all = append(*all, next)
				}
			}
		}
	}
}

func (m *model) add(r *mReq) {
	bs := m.c.BlockTokens
	n := countBlocks(r.P, bs)
	r.kv, r.loaded = r.P, 0
	if m.c.Policy == MaxRequests {
		return
	}
	if !m.c.Reuse {
		for range n {
			b := m.take()
			b.refs++
			r.blocks = append(r.blocks, b)
		}
		return
	}
	keys := m.chop(r.toks, r.P-1, true)
	node, found := m.root, 0
	for i := range n {
		var key []int64
		if i < len(keys) {
			key = keys[i]
		}
		var b *mBlock
		part, k := false, 0
		if node != nil {
			part, k, b = m.match(node, key)
		}
		switch {
		case b == nil:
			b, node = m.take(), nil
			b.key, b.used = key, b.used || len(key) > 0
			m.retain(b, r, i*bs, false)
		case !part:
			found += k
			m.claim(b)
			m.onboard(r, b, k)
			m.retain(b, r, i*bs, true)
			node = b
		case b.refs > 0 || len(b.kids) > 0:
			found += k
			priority, last := b.priority, b.last
			b, node = m.take(), nil
			b.key, b.used, b.priority, b.last = key, true, priority, last
		default:
			found += k
			m.detach(b)
			m.claim(b)
			m.onboard(r, b, k)
			m.retain(b, r, i*bs, true)
			node = nil
		}
		b.refs++
		r.blocks = append(r.blocks, b)
	}
	r.reused, r.prepop = found, found
	if found > 0 {
		if found+r.chunk < r.P {
			r.chunk = (found+r.chunk)/bs*bs - found
		}
		r.pos = found
		r.chunk = min(r.chunk, r.P-r.pos)
	}
	r.est = 0
}

func (m *model) grow(r *mReq) {
	if m.c.Policy != MaxRequests && r.kv%m.c.BlockTokens == 0 {
		b := m.take()
		m.retain(b, r, r.kv, false)
		b.refs++
		r.blocks = append(r.blocks, b)
	}
	r.kv++
}

func (m *model) store(toks []int64, n int, part bool, blocks []*mBlock) {
	node, match := m.root, true
	event := ""
	for i, key := range m.chop(toks, n, part) {
		if i >= len(blocks) {
			break
		}
		if match {
			if b := node.kid(key); b != nil {
				node = b
				continue
			}
		}
		match = false
		b := blocks[i]
		m.detach(b)
		b.key, b.parent, b.used = key, node, true
		node.kids = append(node.kids, b)
		b.name = node.name + fmt.Sprint(key)
		if event == "" {
			event = "stored"
			if node != m.root {
				event = fmt.Sprintf("stored after {%s}:", node.name)
			}
		}
		event += fmt.Sprintf(" {%s}", b.name)
		node = b
	}
	if event != "" {
		m.events = append(m.events, event)
	}
}

func (m *model) close(r *mReq) {
	if m.c.Reuse {
		m.store(r.toks, len(r.toks)-1, true, r.blocks)
	}
	for _, b := range slices.Backward(r.blocks) {
		if b.refs--; b.refs == 0 {
			if b.host {
				panic("a held block is in host memory")
			}
			m.free = append(m.free, b)
			if b.last > 0 && b.priority != DefaultPriority {
				b.until = m.now + b.last
			}
		}
	}
	r.blocks = nil
}

// credit returns how many prompt blocks of r are held by other requests.
func (m *model) credit(r *mReq) int {
	hit, full, held := m.walk(r.toks), r.P/m.c.BlockTokens, 0
	for _, b := range hit {
		if b.refs > 0 {
			held++
		}
	}
	r.est = min(len(hit), full) * m.c.BlockTokens
	return min(held, full)
}

func (m *model) remaining(r *mReq) int {
	total := r.P + r.M
	if m.c.MaxLength > 0 {
		total = min(total, m.c.MaxLength)
	}
	r.est = 0
	cut := 0
	if m.c.CreditCapacity && m.c.Reuse && r.state == inContext && r.firstChunk() && len(r.blocks) == 0 {
		cut = m.credit(r)
	}
	return countBlocks(total, m.c.BlockTokens) - cut - len(r.blocks)
}

func (m *model) oneStep(r *mReq) int {
	r.est = 0
	if r.state == inContext {
		if !r.firstChunk() {
			return 0
		}
		need := countBlocks(r.P, m.c.BlockTokens)
		if m.c.CreditCapacity && m.c.Reuse {
			need -= m.credit(r)
		}
		return need
	}
	add := min(1, r.M-(r.kv-r.P))
	return countBlocks(r.kv+add, m.c.BlockTokens) - countBlocks(r.kv, m.c.BlockTokens)
}

func (m *model) contributed() map[string]bool {
	out := map[string]bool{}
	if m.c.Reuse {
		for _, r := range m.active {
			if r.state == inContext && !r.firstChunk() {
				out[m.firstNew(r.toks)] = true
			}
		}
	}
	delete(out, "")
	return out
}

func (m *model) skip(r *mReq, seen map[string]bool) bool {
	if !m.c.Reuse || r.state != inContext || !r.firstChunk() {
		return false
	}
	k := m.firstNew(r.toks)
	if k == "" {
		return false
	}
	if seen[k] {
		return true
	}
	seen[k] = true
	return false
}

func (m *model) noEvict() (sched []*mReq) {
	static := m.c.Policy == Static
	seen := m.contributed()
	avail := len(m.free)
	var pend []*mReq
	for _, r := range m.active {
		if len(sched) >= m.c.MaxBatch {
			break
		}
		if r.state == generating || r.state == retiring {
			sched = append(sched, r)
			avail -= m.remaining(r)
		} else {
			pend = append(pend, r)
		}
	}
	if static && len(sched) > 0 {
		return sched
	}
	for _, r := range pend {
		if !static && m.skip(r, seen) {
			continue
		}
		if len(sched) >= m.c.MaxBatch {
			break
		}
		need := m.remaining(r)
		if need > avail {
			break
		}
		sched = append(sched, r)
		avail -= need
	}
	return sched
}

func (m *model) maxUtil() (sched, paused []*mReq) {
	free, used := len(m.free), 0
	refs := map[*mBlock]int{}
	for _, r := range m.active {
		for _, b := range r.blocks {
			refs[b] = b.refs
		}
	}
	seen := m.contributed()
	i, end := 0, len(m.active)
	for i < end {
		r := m.active[i]
		if m.skip(r, seen) {
			i++
			continue
		}
		if len(sched) < m.c.MaxBatch {
			if need := m.oneStep(r); used+need <= free {
				used += need
				sched = append(sched, r)
				i++
				continue
			}
		}
		v := -1
		for j := end - 1; j >= i; j-- {
			x := m.active[j]
			if x.state == generating || x.state == retiring || x.state == inContext && !x.firstChunk() {
				v = j
				break
			}
		}
		if v < 0 {
			break
		}
		for _, b := range m.active[v].blocks {
			if refs[b]--; refs[b] == 0 {
				free++
			}
		}
		paused = append(paused, m.active[v])
		end = v
	}
	return sched, paused
}

func (m *model) cost(chunk, hit, left int) int {
	if hit <= 0 || hit+chunk < left {
		return chunk
	}
	return max(0, left-hit)
}

// hit returns the number of tokens of r that do not count.
func (m *model) hit(r *mReq) int {
	if !r.firstChunk() || !m.c.CreditTokens {
		return 0
	}
	return r.est
}

func (m *model) micro(fit []*mReq) (ctx, gen []*mReq) {
	most := m.c.MaxTokens
	used, want, size, allFit := 0, 0, 0, true
	var cut []*mReq
walk:
	for _, r := range fit {
		switch {
		case r.state == inContext && m.c.Chunking == Whole:
			n := len(r.toks)
			if m.c.CreditTokens {
				n = max(1, m.cost(len(r.toks), m.hit(r), r.left()))
			}
			if n > most {
				m.failed = "prompt exceeds a pass"
				return nil, nil
			}
			if used+n > most {
				break walk
			}
			r.chunk = r.left()
			ctx = append(ctx, r)
			used += n
		case r.state == inContext:
			r.chunk = r.left()
			n := m.cost(r.chunk, m.hit(r), r.left())
			if n > most {
				n, allFit = most, false
			}
			cut = append(cut, r)
			want += n
		case r.state == generating:
			if used+1 > most {
				break walk
			}
			gen = append(gen, r)
			used++
		default:
			continue
		}
		if size++; size >= m.c.MaxBatch {
			break
		}
	}
	allFit = allFit && want <= most-used
	if !allFit && len(cut) > 0 {
		m.chunks(cut, most-used)
	}
	for _, r := range cut {
		if r.chunk > 0 {
			ctx = append(ctx, r)
		}
	}
	if !allFit {
		var whole, part []*mReq
		for _, r := range ctx {
			if r.pos+r.chunk < r.P {
				part = append(part, r)
			} else {
				whole = append(whole, r)
			}
		}
		ctx = append(part, whole...)
	}
	return ctx, gen
}

func (m *model) chunks(reqs []*mReq, room int) {
	bs := m.c.BlockTokens
	for _, r := range reqs {
		r.chunk = 0
	}
	if m.c.Chunking == FirstCome {
		for _, r := range reqs {
			hit, n := min(m.hit(r), r.left()), r.left()
			if room < m.cost(n, hit, r.left()) {
				n = min(room, n)
			}
			if m.cost(n, hit, r.left()) > m.c.MaxTokens {
				n = min(m.c.MaxTokens, r.left())
			}
			if n < r.left() {
				n = n / bs * bs
			}
			r.chunk = n
			room -= m.cost(n, hit, r.left())
		}
		return
	}
	used := 0
	for moved := 1; used < room && moved > 0; {
		moved = 0
		for _, r := range reqs {
			hit, n := min(m.hit(r), r.left()), min(r.chunk+bs, r.left())
			d := m.cost(n, hit, r.left()) - m.cost(r.chunk, hit, r.left())
			if used+d > room || n > m.c.MaxTokens {
				continue
			}
			used += d
			moved += n - r.chunk
			r.chunk = n
		}
	}
}

func (m *model) batchWait(ctx, gen []*mReq) []*mReq {
	if m.c.WaitIters == 0 && m.c.WaitRatio == 0 || len(ctx) == 0 || len(gen) == 0 {
		return ctx
	}
	n := len(gen)
	for _, r := range ctx {
		n += len(r.toks)
	}
	if m.waits < m.c.WaitIters && float64(n) < m.c.WaitRatio*float64(m.c.MaxTokens) {
		m.waits++
		return nil
	}
	m.waits = 0
	return ctx
}

func (m *model) pause(r *mReq) {
	r.pauses++
	m.paused++
	g := len(r.toks) - r.P
	r.M -= g
	r.P += g
	r.state, r.pos, r.prepop, r.chunk, r.kv = inContext, 0, 0, r.P, 0
}

func (m *model) launch(ctx, gen []*mReq) (work []string) {
	var fresh []*mReq
	for _, r := range ctx {
		if r.firstChunk() && r.kv == 0 {
			fresh = append(fresh, r)
		}
	}
	var held []*mBlock
	if m.c.Reuse && m.c.ClaimFirst {
		for _, r := range fresh {
			for _, b := range m.walk(r.toks[:r.P-1]) {
				m.claim(b)
				b.refs++
				held = append(held, b)
			}
		}
	}
	for _, r := range fresh {
		m.add(r)
		if r.loaded > 0 {
			m.loads = append(m.loads, fmt.Sprintf("%d:%d", r.id, min(r.loaded, r.orig)))
		}
	}
	for _, b := range held {
		b.refs--
	}
	for _, r := range gen {
		m.grow(r)
	}
	m.expire()
	for _, r := range ctx {
		work = append(work, fmt.Sprintf("%d[%d:%d]", r.id, r.pos, r.pos+r.chunk))
	}
	return work
}

func (m *model) states(b *mBatch) {
	last := func(r *mReq) bool { return m.c.Overlap && len(r.toks)-r.P+1 >= r.M }
	for _, r := range b.ctx {
		if r.state == done {
			continue
		}
		r.pos += r.chunk
		r.chunk = 0
		if r.left() == 0 {
			r.state = generating
			if last(r) {
				r.state = retiring
			}
		}
	}
	for _, r := range b.gen {
		if r.state == generating && last(r) {
			r.state = retiring
		}
	}
}

func (m *model) deliver(b *mBatch) (out []string) {
	for _, r := range b.sample {
		if r.state == done || r.gained() >= r.out {
			continue
		}
		r.toks = append(r.toks, r.token(r.gained()))
		out = append(out, fmt.Sprint(r.id))
		if r.gained() >= r.out || r.gained() >= r.maxNew || m.c.MaxLength > 0 && len(r.toks) >= m.c.MaxLength {
			r.state = done
		}
	}
	return out
}

func (m *model) finish(b *mBatch) (out []string) {
	var ended, stay []*mReq
	for _, r := range m.active {
		if r.state == done {
			ended = append(ended, r)
			out = append(out, fmt.Sprint(r.id))
		} else {
			stay = append(stay, r)
		}
	}
	m.active = stay
	for _, r := range ended {
		m.close(r)
	}
	if m.c.Reuse {
		for _, r := range b.ctx {
			if len(r.blocks) > 0 {
				n := len(r.toks) - 1
				if !m.c.StoreWhole {
					n = min(n, r.pos)
				}
				m.store(r.toks, n, false, r.blocks)
			}
		}
	}
	return out
}

// buffer keeps the latest events of a turn. Blocks that are removed one after the other count as one event.
func (m *model) buffer(all []string) []string {
	events := 0
	for i := len(all) - 1; i >= 0 && m.c.EventBuffer > 0; i-- {
		if removed := strings.HasPrefix(all[i], "removed"); i == len(all)-1 || !removed || !strings.HasPrefix(all[i+1], "removed") {
			events++
		}
		if events > m.c.EventBuffer {
			m.lost += i + 1
			return all[i+1:]
		}
	}
	return all
}

// step runs one turn of the loop. step returns the result of the pass that ended in this turn, or nil if none ended.
func (m *model) step() *mLine {
	m.turn++
	for len(m.active) < m.c.MaxBatch {
		next := -1
		for i, r := range m.waiting {
			if r.arrive <= m.turn && (next < 0 || m.c.ByPriority && r.priority < m.waiting[next].priority) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		m.active = append(m.active, m.waiting[next])
		m.waiting = slices.Delete(m.waiting, next, next+1)
	}
	var fit, paused []*mReq
	switch m.c.Policy {
	case MaxUtil:
		fit, paused = m.maxUtil()
	case MaxRequests:
		fit = m.active[:min(len(m.active), m.c.MaxBatch)]
	default:
		fit = m.noEvict()
	}
	ctx, gen := m.micro(fit)
	ctx = m.batchWait(ctx, gen)
	for _, r := range paused {
		m.close(r)
	}
	if !m.c.Overlap {
		for _, r := range paused {
			m.pause(r)
		}
	}
	var batch *mBatch
	if len(ctx)+len(gen) > 0 {
		batch = &mBatch{ctx: ctx, gen: gen, work: m.launch(ctx, gen), turn: m.turn, loaded: m.loads}
		m.loads = nil
		for _, r := range ctx {
			if r.pos+r.chunk == r.P {
				batch.sample = append(batch.sample, r)
			}
		}
		batch.sample = append(batch.sample, gen...)
	}
	old := m.prev
	over := old
	if m.c.Overlap {
		m.prev = batch
	} else {
		over = batch
	}
	if batch == nil && old == nil && len(paused) == 0 && len(m.active)+len(m.waiting) > 0 && m.failed == "" {
		if len(m.active) > 0 {
			m.failed = "nothing can be scheduled"
		}
	}
	var line *mLine
	if !m.c.Overlap && batch != nil {
		m.states(batch)
	}
	if over != nil {
		line = &mLine{work: over.work, turn: over.turn, loaded: over.loaded}
		for _, r := range over.gen {
			line.gen = append(line.gen, fmt.Sprint(r.id))
		}
		m.now++
		line.got = m.deliver(over)
	}
	if m.c.Overlap {
		for _, r := range paused {
			if r.state != done {
				m.pause(r)
			}
		}
		if batch != nil {
			m.states(batch)
		}
	}
	if over != nil {
		line.ended = m.finish(over)
		line.free = len(m.free)
		line.events, m.events = m.buffer(m.events), nil
	}
	return line
}
