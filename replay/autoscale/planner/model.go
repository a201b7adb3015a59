package planner

import (
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/scheduler"
)

// The constants are limits of a worker without configured limits.
const (
	assumedTokens   = 8192
	assumedSeqs     = 512
	assumedKVTokens = 2_000_000
	mostTokens      = math.MaxUint32
	mostSizes       = 128  // batch sizes that a search tries
	mostHits        = 0.95 // upper limit of the cached share of prompts
)

// work is the work of one pass.
type work struct{ prefills, prefillTokens, cached, decodes, decodeTokens int }

// The constants are the kinds of passes, each with a store.
const (
	onlyPrefill = iota
	onlyDecode
	mixed
	passKinds
)

// model estimates pass times from measured passes.
type model struct {
	role                scheduler.Role
	tokens, seqs, kv    int
	stores              [passKinds]*store
	ttft, itl           float64 // objectives, in seconds
	input, decodeLength average // of a request in a pass
	perPass, perPassN   average // prompt tokens of a pass, and their requests
	order               []int   // workers, in the order of their first reports
}

func newModel(c *Config, role scheduler.Role, e Engine) *model {
	or := func(n, other int) int {
		if n > 0 && n <= mostTokens {
			return n
		}
		return other
	}
	m := &model{role: role, tokens: or(e.MaxBatchedTokens, assumedTokens), seqs: or(e.MaxSeqs, assumedSeqs), kv: or(e.KVTokens, assumedKVTokens), ttft: c.TTFT / 1000, itl: c.ITL / 1000}
	for i := range m.stores {
		m.stores[i] = newStore(c)
	}
	for _, a := range []*average{&m.input, &m.decodeLength, &m.perPass, &m.perPassN} {
		a.most = c.Samples
	}
	return m
}

// average is the mean of the latest values, without leading zeros.
type average struct {
	most   int
	values []float64
	sum    float64
	begun  bool
}

func (a *average) add(v float64) {
	if a.begun = a.begun || v > 0; !a.begun {
		return
	}
	a.values = append(a.values, v)
	if a.sum += v; len(a.values) > a.most {
		a.sum -= a.values[0]
		a.values = a.values[1:]
	}
}

func (a *average) value() float64 {
	if len(a.values) == 0 {
		return 0
	}
	return a.sum / float64(len(a.values))
}

// isReady reports whether a kind of passes can be estimated.
func (m *model) isReady() bool {
	return slices.ContainsFunc(m.stores[:], func(s *store) bool { return s.ready })
}

// observe adds the latest pass of each worker.
func (m *model) observe(passes []scheduler.Snapshot) {
	byWorker := map[int]*scheduler.Snapshot{}
	for i := range passes {
		byWorker[passes[i].Worker] = &passes[i]
	}
	m.order = slices.DeleteFunc(m.order, func(w int) bool { return byWorker[w] == nil })
	for i := range passes {
		if !slices.Contains(m.order, passes[i].Worker) {
			m.order = append(m.order, passes[i].Worker)
		}
	}
	for _, w := range m.order {
		m.noteLengths(byWorker[w])
	}
	byName := slices.Clone(m.order)
	slices.SortFunc(byName, func(a, b int) int {
		if x, y := strconv.Itoa(a), strconv.Itoa(b); x < y {
			return -1
		}
		return 1
	})
	for _, w := range byName {
		s := byWorker[w]
		if m.role == scheduler.Decode && s.Prefill.Sum > 0 || m.role == scheduler.Prefill && s.Decode.Requests > 0 {
			return // the planner rejects this pass and all later passes of the tick
		}
		m.learn(s)
	}
}

// noteLengths adds the mean lengths of the requests of a pass.
func (m *model) noteLengths(s *scheduler.Snapshot) {
	length := 0.0
	if n := s.Prefill.Requests; n > 0 {
		length = float64(s.Prefill.Sum) / float64(n)
	}
	m.input.add(length)
	if n := s.Decode.Requests; n > 0 {
		m.decodeLength.add(float64(s.Decode.Sum) / float64(n))
	}
}

// learn adds a measured pass to its store.
func (m *model) learn(s *scheduler.Snapshot) {
	w := work{s.Prefill.Requests, s.Prefill.Sum, s.PrefillCached, s.Decode.Requests, s.Decode.Sum}
	if kind, ok := m.kindOf(&w); ok && s.Seconds > 0 {
		m.stores[kind].add(sample{m.measure(&w), s.Seconds * 1000})
	}
	m.perPassN.add(float64(s.Prefill.Requests))
	m.perPass.add(float64(s.Prefill.Sum))
}

// kindOf returns the store of a pass; ok is false for an empty pass.
func (m *model) kindOf(w *work) (kind int, ok bool) {
	switch prefills, decodes := w.prefillTokens > 0, w.decodes > 0; {
	case m.role == scheduler.Prefill:
		return onlyPrefill, prefills
	case m.role == scheduler.Decode:
		return onlyDecode, decodes
	case prefills && decodes:
		return mixed, true
	case decodes:
		return onlyDecode, true
	default:
		return onlyPrefill, prefills
	}
}

// measure returns the features of a pass: attention work, and tokens.
func (m *model) measure(w *work) (x [2]float64) {
	if m.role != scheduler.Decode {
		if p := float64(w.prefillTokens); p > 0 {
			n, cached := float64(w.prefills), float64(w.cached)
			x[0] = cached + cached*p/n + p*p/(2*n) + p/2
			x[1] = p
		}
	}
	if m.role != scheduler.Prefill {
		x[0] += float64(w.decodeTokens)
		x[1] += float64(w.decodes)
	}
	return x
}

// estimate returns the time of a pass, in seconds.
func (m *model) estimate(w *work) (float64, bool) {
	kind, ok := m.kindOf(w)
	if !ok {
		return 0, true
	}
	ms, ok := m.stores[kind].estimate(m.measure(w))
	return ms / 1000, ok
}

// inChunks returns the time for prompt tokens in passes of the token budget. Each pass also has the other work of w.
func (m *model) inChunks(tokens int, w work) (float64, bool) {
	total := 0.0
	for _, part := range [][2]int{{m.tokens, tokens / m.tokens}, {tokens % m.tokens, 1}} {
		if part[0] == 0 || part[1] == 0 {
			continue
		}
		w.prefillTokens, w.prefills = part[0], max(w.prefills, 1)
		t, ok := m.estimate(&w)
		if !ok {
			return 0, false
		}
		total += t * float64(part[1])
	}
	return total, true
}

// scales are the factors of the load of a worker, and which requests count.
type scales struct {
	queue, decode float64
	waiting       bool // preempted requests count as running
	prompts       bool // queued prompts count as running
}

// roundUp rounds up, to at least 0.
func roundUp(x float64) int { return int(min(math.Ceil(max(x, 0)), mostTokens)) }

// timeToFirst returns the estimated TTFT of the next request on the worker, in ms.
func (m *model) timeToFirst(s *scheduler.Snapshot, hits float64, by scales) (float64, bool) {
	queued, requests := float64(s.QueuedPrefill.Sum)*by.queue, float64(s.QueuedPrefill.Requests)*by.queue
	if n := m.input.value(); n > 0 {
		queued, requests = queued+n, requests+1
	}
	queued *= 1 - min(max(hits, 0), mostHits)
	w := work{prefills: roundUp(requests)}
	if m.role == scheduler.Aggregated {
		w.decodes, w.decodeTokens = m.scaleDecode(s, by)
	}
	t, ok := m.inChunks(roundUp(queued), w)
	return t * 1000, ok
}

// scaleDecode returns the requests that decode on a worker, and their tokens.
func (m *model) scaleDecode(s *scheduler.Snapshot, by scales) (requests, tokens int) {
	n, kv := float64(s.Decode.Requests), float64(s.Decode.Sum)
	if by.waiting {
		n, kv = n+float64(s.QueuedDecode.Requests), kv+float64(s.QueuedDecode.Sum)
	}
	return roundUp(n * by.decode), roundUp(kv * by.decode)
}

// timeBetween returns the estimated ITL of the worker with one more request, in ms.
func (m *model) timeBetween(s *scheduler.Snapshot, by scales) (float64, bool) {
	n, kv := float64(s.Decode.Requests+s.QueuedDecode.Requests), float64(s.Decode.Sum+s.QueuedDecode.Sum)
	if by.prompts {
		n, kv = n+float64(s.QueuedPrefill.Requests), kv+float64(s.QueuedPrefill.Sum)
	}
	n, kv = n*by.decode, kv*by.decode
	if more := m.decodeLength.value(); more > 0 {
		n, kv = n+1, kv+more
	}
	w := work{decodes: roundUp(n), decodeTokens: roundUp(kv)}
	if m.role == scheduler.Aggregated {
		w.prefillTokens = roundUp(m.perPass.value())
		w.prefills = roundUp(m.perPassN.value())
		if w.prefillTokens > 0 {
			w.prefills = max(w.prefills, 1)
		}
	}
	t, ok := m.estimate(&w)
	return t * 1000, ok
}
