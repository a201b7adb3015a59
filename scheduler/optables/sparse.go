package optables

// Sparse describes a block of sparse latent attention (DSA), from hidden state to output projection. Sparse attention
// attends only to the tokens selected by an indexer.
type Sparse struct {
	Architecture string // name in the tables
	Heads        int
	KV           string // type of the KV cache: bfloat16 or fp8
	GEMM         string // type of the projections: bfloat16, fp8_block, nvfp4
}

// Sizes of sparse attention: the number of selected tokens, and the values of the indexer's key.
const (
	sparseChosen = 2048
	indexSize    = 128
	indexHeads   = 64
)

// SparseContext returns the time of a block for a batch of prompts without past tokens.
func (t *Tables) SparseContext(x Sparse, batch, tokens int) Time {
	return t.sparse(sparseContextTable, x, point{x.Heads, tokens, batch})
}

// SparsePast returns the additional time of a block for a prompt of the given number of tokens after past cached
// tokens.
func (t *Tables) SparsePast(x Sparse, tokens, past int) Time {
	whole := t.sparse(sparsePastTable, x, point{x.Heads, tokens, tokens + past})
	first := t.sparse(sparsePastTable, x, point{x.Heads, tokens, tokens})
	whole.Ms = max(whole.Ms-first.Ms, 0)
	return whole
}

// SparseGeneration returns the time of a block for one token of each request of a batch. length is the mean length of
// KV caches.
func (t *Tables) SparseGeneration(x Sparse, batch, length int) Time {
	return t.sparse(sparseGenerationTable, x, point{x.Heads, batch, length})
}

// Sparse reports whether the tables have measurements of sparse attention for an architecture.
func (t *Tables) Sparse(architecture string) bool {
	_, ok := t.table(sparseGenerationTable).word(architecture)
	return ok
}

func (x *Sparse) workload(place int) workload {
	w := workload{op: sparseContextOp, fixed: 3, dtype: "bfloat16", kvBytes: bytesOf(x.KV), weight: bytesOf(x.GEMM)}
	switch place {
	case sparsePastTable:
		w.op = sparsePastOp
	case sparseGenerationTable:
		w.op = sparseGenerationOp
	}
	return w
}

// sparse looks up a point among the curves of the kind of x, or of the most similar measured kind.
func (t *Tables) sparse(place int, x Sparse, at point) Time {
	table := t.table(place)
	m := measured{own: x.workload(place), grid: grid{Tables: t, table: table}}
	least := -1
	for from := 0; from < len(table.keys); {
		k := &table.keys[from]
		span := table.prefix(k, 3)
		y := Sparse{table.words[k[0]], x.Heads, table.words[k[1]], table.words[k[2]]}
		d := 0
		for i, differs := range [...]bool{y.KV != x.KV, y.GEMM != x.GEMM, y.Architecture != x.Architecture} {
			if differs {
				d += 1 << i
			}
		}
		if least < 0 || d < least {
			least = d
			m.grid.span, m.grid.load = span, y.workload(place)
		}
		from = span[1]
	}
	m.other = least > 0
	return m.at(at)
}

// chosen returns the lower bound of the time at a point of sparse or linear attention, in ms.
func (w *workload) chosen(s *Sheet, x point) float64 {
	a, b, c := float64(x[0]), float64(x[1]), float64(x[2])
	peak := s.peak(w.dtype)
	if w.op == linearOp { // tokens, batch
		return s.bound(w.ops*b*c, peak, c*(w.once+w.each*b))
	}
	batch, tokens, pairs, seen, length := c, b, b*b/2, min(b, sparseChosen), b // heads, tokens, batch
	switch w.op {
	case sparsePastOp: // heads, tokens, length
		batch, pairs, seen, length = 1, b*(c-b/2), min(c, sparseChosen), c
	case sparseGenerationOp: // heads, batch, length
		batch, tokens, pairs, seen, length = b, 1, c, min(c, sparseChosen), c
	}
	ops := batch * (4*(latentRank+latentRank/16)*a*tokens*seen + 2*indexHeads*indexSize*pairs)
	bytes := batch * (tokens*4*(latentRank+latentRank/16)*a + (latentRank+latentRope)*max(seen, min(length, tokens))*w.kvBytes + indexSize*length)
	bytes += 2 * productBytes(batch*tokens, a) * w.weight
	return s.bound(ops+2*productOps(batch*tokens, a), peak, bytes)
}
