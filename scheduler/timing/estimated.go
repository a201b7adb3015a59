package timing

// Estimator is a source of times outside this program, such as a database of
// measured kernels.
type Estimator interface {
	// Prefill is the time in ms for batch prompts with tokens to compute each
	// after prefix cached ones.
	Prefill(batch, tokens, prefix int) float64
	// Decode is the mean time in ms between the answer's tokens, for batch
	// requests of context tokens each.
	Decode(batch, context, answer int) float64
}

// Estimated makes a Model of an Estimator.
type Estimated struct{ Estimator Estimator }

// answerTokens makes an estimator look at one decode step: the second token's.
const answerTokens = 2

// ByContext is true: an estimator is asked for nothing but batch and context.
func (Estimated) ByContext() bool { return true }

// Prefill asks the estimator, and is at least 0.
func (e Estimated) Prefill(batch, isl, prefix int) float64 {
	return max(e.Estimator.Prefill(batch, max(isl-prefix, 0), prefix), 0)
}

// Decode asks the estimator, and is at least 1 ms.
func (e Estimated) Decode(batch, _, context, _ int) float64 {
	return max(e.Estimator.Decode(batch, context, answerTokens), 1)
}
