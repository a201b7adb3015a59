package optables

// Latent describes attention to latent keys and values (MLA), of rank 512 with 64 rotated values.
type Latent struct {
	Heads int
	Type  string // type of the kernel's products: bfloat16 or fp8
	KV    string // type of the KV cache: bfloat16 or fp8
	GEMM  string // type of a block's projections: bfloat16, fp8_block, nvfp4; kernels ignore it
}

// LatentContext returns the time of the kernel for prompts, with the same arguments as Context.
func (t *Tables) LatentContext(l Latent, batch, tokens, past int) Time {
	s := tokens + past
	found := t.latent(latentContextTable, l, point{l.Heads, s, batch})
	found.Ms *= shareOfNew(s, past)
	return found
}

// LatentGeneration returns the time of the kernel for one token of each request of a batch. length is the mean length
// of KV caches.
func (t *Tables) LatentGeneration(l Latent, batch, length int) Time {
	return t.latent(latentGenerationTable, l, point{l.Heads, batch, length})
}

// LatentProduct returns the time of the product with absorbed weights before the kernel, or after it if post is true.
func (t *Tables) LatentProduct(dtype string, post bool, tokens, heads int) Time {
	op := "mla_gen_pre"
	if post {
		op = "mla_gen_post"
	}
	table := t.table(productTable)
	m := measured{own: workload{op: productOp, fixed: 2, dtype: dtype, weight: bytesOf(dtype)}}
	m.grid = grid{Tables: t, table: table}
	for _, known := range [...]string{dtype, "bfloat16", "fp8"} {
		a, ok := table.word(op)
		b, found := table.word(known)
		if !ok || !found {
			continue
		}
		m.grid.span = table.prefix(&key{a, b}, 2)
		m.grid.load, m.other = m.own, known != dtype
		m.grid.load.dtype, m.grid.load.weight = known, bytesOf(known)
		if m.grid.span[1] > m.grid.span[0] {
			break
		}
	}
	return m.at(point{1, heads, tokens})
}

// LatentModule returns the time of a whole block, from hidden state to output projection. With context, the block
// computes prompts as in LatentContext, and otherwise one token per request as in LatentGeneration. LatentModule
// returns false if no block was measured.
func (t *Tables) LatentModule(l Latent, context bool, batch, length, past int) (Time, bool) {
	place, x, share := moduleGenerationTable, point{l.Heads, batch, length}, 1.0
	if context {
		s := length + past
		place, x, share = moduleContextTable, point{l.Heads, s, batch}, shareOfNew(s, past)
	}
	if len(t.table(place).keys) == 0 {
		return Time{}, false
	}
	found := t.latent(place, l, x)
	found.Ms *= share
	return found, true
}

func (l *Latent) workload(place int) workload {
	w := workload{op: latentContextOp, fixed: 2, dtype: l.Type, kvBytes: bytesOf(l.KV)}
	switch place {
	case latentGenerationTable:
		w.op = latentGenerationOp
	case moduleContextTable:
		w.op, w.fixed, w.weight = moduleContextOp, 3, bytesOf(l.GEMM)
	case moduleGenerationTable:
		w.op, w.fixed, w.weight = moduleGenerationOp, 3, bytesOf(l.GEMM)
	}
	return w
}

// latent looks up a point among the curves of the kind of l, or of the most similar measured kind.
func (t *Tables) latent(place int, l Latent, x point) Time {
	own := l.workload(place)
	table := t.table(place)
	var best [2]int
	var kind Latent
	least := -1
	for at := 0; at < len(table.keys); {
		k := &table.keys[at]
		span := table.prefix(k, own.fixed)
		b := Latent{l.Heads, table.words[k[0]], table.words[k[1]], l.GEMM}
		if own.fixed > 2 {
			b.GEMM = table.words[k[2]]
		}
		d := 0
		for i, differs := range [...]bool{b.KV != l.KV, b.Type != l.Type, b.GEMM != l.GEMM} {
			if differs {
				d += 1 << i
			}
		}
		if least < 0 || d < least {
			least, best, kind = d, span, b
		}
		at = span[1]
	}
	m := measured{own: own, other: least > 0, grid: grid{Tables: t, table: table, span: best}}
	if least >= 0 {
		m.grid.load = kind.workload(place)
	}
	return m.at(x)
}
