package optables

// Sparse is an attention to latent keys and values that attends to the tokens that an indexer chooses (DSA), as a block from
// hidden state to output projection.
type Sparse struct {
	Architecture string // as the tables name it
	Heads        int
	KV           string // of the cache: bfloat16 or fp8
	GEMM         string // of the projections: bfloat16, fp8_block, nvfp4
}

// Sizes of sparse attention: the tokens that are chosen, and the values of the indexer's key.
const (
	sparseChosen = 2048
	indexSize    = 128
	indexHeads   = 64
)

// SparseContext returns the time of a block for prompts of a batch without a past.
func (t *Tables) SparseContext(x Sparse, batch, tokens int) Time {
	return t.sparse(sparseContextTable, x, point{x.Heads, tokens, batch})
}

// SparsePast returns the time that a block takes longer for a prompt of tokens after past cached ones.
func (t *Tables) SparsePast(x Sparse, tokens, past int) Time {
	whole := t.sparse(sparsePastTable, x, point{x.Heads, tokens, tokens + past})
	first := t.sparse(sparsePastTable, x, point{x.Heads, tokens, tokens})
	whole.Ms = max(whole.Ms-first.Ms, 0)
	return whole
}

// SparseGeneration returns the time of a block for one token of each request of a batch, given their mean length.
func (t *Tables) SparseGeneration(x Sparse, batch, length int) Time {
	return t.sparse(sparseGenerationTable, x, point{x.Heads, batch, length})
}

// Sparse reports whether there are measurements of sparse attention of an architecture.
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

// sparse looks a point up among the curves of a kind, else of the most similar kind that was measured.
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

// chosen returns the speed of light of a point of sparse or linear attention.
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
