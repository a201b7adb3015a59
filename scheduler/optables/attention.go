package optables

// Attention describes attention with heads of keys and values on one GPU.
type Attention struct {
	Heads, KVHeads int
	HeadSize       int
	Window         int    // tokens that each token attends to; 0: all
	KV             string // type of the KV cache: bfloat16 or fp8
}

// Context returns the attention time of a batch of prompts that compute the given number of tokens each, after past
// cached tokens. The rotation and the writes of keys and values are not included.
func (t *Tables) Context(a Attention, batch, tokens, past int) Time {
	s := tokens + past
	m := t.attention(contextTable, a)
	found := m.at(point{a.Heads, s, batch})
	found.Ms *= shareOfNew(s, past)
	return found
}

// shareOfNew returns the share of new tokens in all pairs of tokens of a prompt.
func shareOfNew(length, past int) float64 {
	s, p := float64(length), float64(past)
	return (float64(s*s) - float64(p*p)) / float64(s*s)
}

// Generation returns the attention time of one token for each request of a batch. length is the mean length of KV
// caches, including the computed token. The result is the mean of five lookups from 0.9 to 1.1 of length, because
// lengths differ.
func (t *Tables) Generation(a Attention, batch, length int) Time {
	lo := max(int(0.9*float64(length)), 1)
	hi := max(int(1.1*float64(length)), lo)
	m := t.attention(generationTable, a)
	var mean Time
	for i := range 5 {
		found := m.at(point{a.Heads, batch, lo + (hi-lo)*i/4})
		mean.Ms += found.Ms
		mean.Source = max(mean.Source, found.Source)
	}
	mean.Ms /= 5
	return mean
}

// measured is the measurements of a kind of operator, or of the most similar kind that was measured.
type measured struct {
	grid  grid
	own   workload
	other bool // the measurements are of another kind
}

// at returns the time of a point. The time of another kind is scaled to the same utilisation.
func (m *measured) at(x point) Time {
	t := m.grid.Tables
	x[0], x[1], x[2] = max(x[0], 1), max(x[1], 1), max(x[2], 1)
	light := m.own.bound(t.Sheet(), x)
	if m.grid.span[1] == m.grid.span[0] {
		return Time{light, Filled}
	}
	found := m.grid.at(x)
	if !m.other && t.donor == nil {
		return found
	}
	return Time{found.Ms * light / m.grid.load.bound(t.sheet(), x), Filled}
}

// attention returns the measurements of the kind of a, or of the most similar kind.
func (t *Tables) attention(place int, a Attention) measured {
	table := t.table(place)
	m := measured{own: a.workload(place)}
	m.grid = grid{Tables: t, table: table, load: m.own}
	kvHeads := int32(a.KVHeads)
	if a.KVHeads == a.Heads {
		kvHeads = 0
	}
	if word, ok := table.word(a.KV); ok {
		m.grid.span = table.prefix(&key{word, int32(a.HeadSize), kvHeads, int32(a.Window)}, m.own.fixed)
		if m.grid.span[1] > m.grid.span[0] {
			return m
		}
	}
	span, other := t.similar(place, a)
	m.grid.span, m.grid.load, m.other = span, other.workload(place), true
	return m
}

func (a *Attention) workload(place int) workload {
	w := workload{op: contextOp, fixed: 4, dtype: "bfloat16", kvBytes: bytesOf(a.KV), head: float64(a.HeadSize), window: float64(a.Window)}
	if place == generationTable {
		w.op = generationOp
	}
	if a.KVHeads != a.Heads {
		w.kvHeads = float64(a.KVHeads)
	}
	return w
}

// similar returns the curves of the measured kind of attention that is most similar to a.
func (t *Tables) similar(place int, a Attention) (best [2]int, kind Attention) {
	table := t.table(place)
	least := -1.0
	for at := 0; at < len(table.keys); {
		k := &table.keys[at]
		span := table.prefix(k, 4)
		b := Attention{a.Heads, int(k[2]), int(k[1]), int(k[3]), table.words[k[0]]}
		if b.KVHeads == 0 {
			b.KVHeads = a.Heads
		}
		if d := a.distance(b); least < 0 || d < least {
			least, best, kind = d, span, b
		}
		at = span[1]
	}
	return best, kind
}

// distance returns the dissimilarity of two kinds of attention.
func (a *Attention) distance(b Attention) float64 {
	d := 2*sizesApart(a.HeadSize, b.HeadSize) + sizesApart(a.KVHeads, b.KVHeads)
	if a.KV != b.KV {
		d++
	}
	switch {
	case (a.Window > 0) != (b.Window > 0):
		d += 4
	case a.Window > 0:
		d += sizesApart(a.Window, b.Window)
	}
	return d
}

// sizesApart returns the difference of the approximate binary logarithms of two sizes.
func sizesApart(a, b int) float64 {
	d := roughLog(a) - roughLog(b)
	return max(d, -d)
}
