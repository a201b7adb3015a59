package timing

import (
	"math"
	"sync/atomic"

	"github.com/replay-llm/replay/scheduler/silicon"
)

// Measured is a model of forward passes from measured operator times.
type Measured struct {
	Passes      *silicon.Passes
	Corrections silicon.Corrections
	Graphs      Parameters // only the fields for captured graphs are used

	fixed [mostKept]atomic.Uint64 // cached fixedTime of passes with one token per request, by number of requests; 0: not computed yet
}

// mostKept limits the number of requests for which the fixed time is cached.
const mostKept = 1 << 10

// ByContext returns true: times depend on the KV cache that a pass reads.
func (*Measured) ByContext() bool { return true }

// Step returns the time of a whole pass.
func (m *Measured) Step(s *Step) float64 {
	if !s.Mixed() {
		l := m.decodeLine(s)
		return l.At(s.Context)
	}
	ms := m.Passes.Mixed(m.Graphs.paddedTokens(s.Tokens), s.Requests)
	if s.Readers > 0 {
		l := m.Passes.Generation(s.Readers, s.Context)
		ms += l.At(s.Context)
	}
	if s.ChunkTokens > 0 {
		ms += m.Passes.Prompts(max(s.Chunks, 1), s.ChunkTokens, s.Pairs)
	}
	return float64(m.Corrections.Prompts*ms) + m.Corrections.Prompt + m.hostTime(s)
}

// hostTime returns the host time of a pass, in ms: the time between passes, and the time of launches without graphs.
// If the engine uses graphs, the factor of passes with prompts includes their launch time.
func (m *Measured) hostTime(s *Step) float64 {
	ms := m.Corrections.Base + float64(m.Corrections.Request*float64(s.Requests))
	if m.Graphs.KindOf(s) == Eager && (!s.Mixed() || len(m.Graphs.Graphs) == 0) {
		ms += float64(m.Corrections.Layer * float64(m.Passes.Layers))
	}
	return ms
}

// decodeLine returns the time of a pass that only decodes, as a line that also covers the following passes.
func (m *Measured) decodeLine(s *Step) silicon.Line {
	l := m.Passes.Generation(s.Requests, s.Context)
	l.Base += m.fixedTime(s)
	return l
}

// fixedTime returns the time of a pass that only decodes, without attention.
func (m *Measured) fixedTime(s *Step) float64 {
	if s.Tokens != s.Requests || s.Requests >= mostKept {
		return m.Passes.Decode(m.Graphs.paddedTokens(s.Tokens), s.Requests) + m.hostTime(s)
	}
	kept := &m.fixed[s.Requests]
	if known := kept.Load(); known != 0 {
		return math.Float64frombits(known)
	}
	ms := m.Passes.Decode(m.Graphs.paddedTokens(s.Tokens), s.Requests) + m.hostTime(s)
	kept.Store(math.Float64bits(ms))
	return ms
}

// Prefill returns the time of a pass that only computes prompts.
func (m *Measured) Prefill(batch, isl, prefix int) float64 {
	return m.Step(promptsStep(batch, isl, prefix))
}

// Decode returns the time of a pass that only decodes.
func (m *Measured) Decode(batch, _, context, _ int) float64 {
	return m.Step(decodesStep(batch, context))
}

// promptsStep returns a pass that computes equal prompts.
func promptsStep(batch, isl, prefix int) *Step {
	each := max(isl-prefix, 0)
	pairs := float64(batch*each) * (float64(prefix) + float64(float64(each)/2))
	return &Step{Tokens: batch * each, Requests: batch, Pairs: pairs, Chunks: batch, ChunkTokens: batch * each}
}

// decodesStep returns a pass that computes a token each for equal requests.
func decodesStep(batch, context int) *Step {
	return &Step{Tokens: batch, Requests: batch, Readers: batch, Context: int64(batch) * int64(context)}
}
