package timing

import (
	"github.com/replay-llm/replay/scheduler/silicon"
)

// Measured is a model of a forward pass by measured operator times.
type Measured struct {
	Passes      *silicon.Passes
	Corrections silicon.Corrections
	Graphs      Parameters // its Graphs and GraphMode say how passes are launched
}

// ByContext returns true: time depends on the KV cache that is read.
func (*Measured) ByContext() bool { return true }

// Step returns the time of a whole pass.
func (m *Measured) Step(s *Step) float64 {
	if !s.Mixed() {
		l := m.decodeLine(s)
		return m.launched(l.At(s.Context), s)
	}
	ms := m.Passes.Mixed(m.Graphs.paddedTokens(s.Tokens), s.Requests)
	if s.Readers > 0 {
		l := m.Passes.Generation(s.Readers, s.Context)
		ms += l.At(s.Context)
	}
	if s.ChunkTokens > 0 {
		ms += m.Passes.Prompts(max(s.Chunks, 1), s.ChunkTokens, s.Pairs)
	}
	return m.launched(float64(m.Corrections.Prompts*ms)+m.hostTime(s), s)
}

// hostTime returns what the host takes for a pass, in ms.
func (m *Measured) hostTime(s *Step) float64 {
	return m.Corrections.Base + float64(m.Corrections.Request*float64(s.Requests))
}

// decodeLine returns the time of a pass that only decodes, and of those that follow it.
func (m *Measured) decodeLine(s *Step) silicon.Line {
	l := m.Passes.Generation(s.Requests, s.Context)
	l.Base += m.Passes.Decode(m.Graphs.paddedTokens(s.Tokens), s.Requests) + m.hostTime(s)
	return l
}

// launched returns ms, or what launching the pass takes if that is more.
func (m *Measured) launched(ms float64, s *Step) float64 {
	if m.Graphs.KindOf(s) != Eager {
		return ms
	}
	return max(ms, float64(m.Corrections.Layer*float64(m.Passes.Layers)))
}

// Prefill returns the time of a pass that computes prompts alone.
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
