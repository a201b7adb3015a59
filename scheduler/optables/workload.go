package optables

// operator is a kind of attention with its own formula for products and bytes.
type operator uint8

const (
	contextOp operator = iota
	generationOp
	latentContextOp
	latentGenerationOp
	moduleContextOp
	moduleGenerationOp
	productOp
	sparseContextOp
	sparsePastOp
	sparseGenerationOp
	linearOp
)

// workload is the common data of a grid's points, from which bound computes the lower bound of the time at a point.
type workload struct {
	op      operator
	fixed   int     // number of key columns before the columns of points
	dtype   string  // type of the products
	kvBytes float64 // bytes of a value in the KV cache
	head    float64 // size of a head
	kvHeads float64 // number of key-value heads; 0: as many as heads
	window  float64 // tokens that each token attends to; 0: all
	weight  float64 // bytes of a value of absorbed weights
	// For linear attention: products per token, bytes per token, and bytes per sequence.
	ops, each, once float64
}

// Sizes of latent attention (MLA): the rank of keys and values, the rotated part, and the values of a head.
const (
	latentRank  = 512
	latentRope  = 64
	latentValue = 128
)

// bound returns the lower bound of the time at a point on a GPU, in ms.
func (w *workload) bound(s *Sheet, x point) float64 {
	a, b, c := float64(x[0]), float64(x[1]), float64(x[2])
	peak := s.peak(w.dtype)
	switch w.op {
	case contextOp: // heads, tokens, batch
		pairs := 2 * b * b
		if w.window > 0 && w.window < b {
			pairs = 4 * b * w.window
		}
		kv := w.kvHeads
		if kv == 0 {
			kv = a
		}
		return s.bound(c*pairs*a*w.head, peak, 4*c*a*b*w.head+w.kvBytes*2*c*kv*b*w.head)
	case generationOp: // heads, batch, tokens
		past, kv := c-1, w.kvHeads
		if w.window > 0 {
			past = min(past, w.window)
		}
		if kv == 0 {
			kv = a
		}
		return s.bound(4*b*a*w.head*past, peak, b*(4*a*w.head+2*kv*past*w.head*w.kvBytes))
	case latentContextOp, moduleContextOp: // heads, tokens, batch
		return s.bound(c*a*320*b*b, peak, c*a*320*(w.kvBytes*b+2*b))
	case latentGenerationOp, moduleGenerationOp: // heads, batch, tokens
		ops := 4 * (latentRank + latentRank/16) * b * a * c
		bytes := b * (4*(latentRank+latentRank/16)*a + (latentRank+latentRope)*(c-1)*w.kvBytes)
		if w.op == moduleGenerationOp {
			ops += 2 * productOps(b, a)
			bytes += 2 * productBytes(b, a) * w.weight
		}
		return s.bound(ops, peak, bytes)
	}
	if w.op != productOp {
		return w.chosen(s, x)
	}
	return s.bound(productOps(c, b), peak, productBytes(c, b)*w.weight) // heads, tokens
}

// productOps and productBytes count the operations and the bytes of one product with absorbed weights.
func productOps(tokens, heads float64) float64 {
	return 2 * tokens * heads * latentRank * latentValue
}

func productBytes(tokens, heads float64) float64 {
	return heads * ((latentRank+latentValue)*tokens + latentRank*latentValue)
}

// sheet returns the data sheet of the measured GPU.
func (t *Tables) sheet() *Sheet {
	if t.donor != nil {
		return t.donor
	}
	return &t.header.Sheet
}

// fill scales a measured time to a GPU that was not measured. donor and own are the lower bounds on the measured GPU
// and on this GPU.
func (t *Tables) fill(measured Time, donor, own float64) Time {
	if t.donor == nil || donor == 0 {
		return measured
	}
	return Time{measured.Ms * own / donor, Filled}
}
