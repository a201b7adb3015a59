package timing

// Polynomial is the reference's default model: fits to one GPU's profile, in
// the prompt tokens to compute and in the share of the KV cache in use.
type Polynomial struct{}

// ByContext returns false: only the KV cache in use counts.
func (Polynomial) ByContext() bool { return false }

// Prefill returns a time that is quadratic in the tokens to compute.
func (Polynomial) Prefill(batch, isl, prefix int) float64 {
	t := float64(batch * max(isl-prefix, 0))
	ms := float64(4.209989e-07*float64(t*t)) + float64(1.518344e-02*t)
	return max(ms+1.650142e+01, 0)
}

// Decode returns a time that is quadratic in the share of the KV cache in use, and
// at least 1 ms.
func (Polynomial) Decode(_, active, _, capacity int) float64 {
	p := 1.0
	if capacity > 0 {
		p = float64(active) / float64(capacity)
	}
	ms := float64(-25.74*float64(p*p)) + float64(54.01*p)
	return max(ms+5.74, 1)
}
