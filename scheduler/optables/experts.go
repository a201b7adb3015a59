package optables

// Experts describes a layer of experts of a model and its split over GPUs.
type Experts struct {
	Type          string // type of the weights: bfloat16, fp8, fp8_block, nvfp4, int4_wo, w4a16_mxfp4, w4a8_mxfp4_mxfp8
	Hidden, Inter int    // hidden size of the model, and width of one expert
	PerToken      int    // experts per token
	Count         int
	TP, EP        int    // number of GPUs that share each expert, and number of groups over which experts are divided
	Distribution  string // distribution of tokens over experts: balanced, power_law_1.01 or power_law_1.2
}

// Key columns of the table of experts.
const (
	expertEngine = iota
	expertType
	expertDistribution
	expertHidden
	expertInter
	expertPerToken
	expertCount
	expertTP
	expertEP
)

// Experts returns the time of the experts of a layer on one GPU with the kernels of an engine. tokens counts all
// tokens that enter the layer on all GPUs. An unmeasured shape uses the utilisation of the most similar shape. A
// shape of another engine is used only if no shape of this engine is as similar.
func (t *Tables) Experts(e Engine, x Experts, tokens int) Time {
	tokens = max(tokens, 1)
	own := x.bound(t.Sheet(), tokens)
	table := t.table(expertsTable)
	best, least := -1, 0.0
	if i := t.exactly(e, x); i >= 0 {
		best = i
	} else {
		best, least = t.mostLike(e, x)
	}
	if best < 0 {
		return Time{own, Filled}
	}
	y := x.of(table, best)
	c := t.curve(table, best)
	source := Measured
	if !c.covers(tokens) {
		source = Interpolated
	}
	ms := y.along(t.sheet(), &c, tokens)
	switch {
	case least > sameShape:
		source = Filled
	case least > 0:
		source = max(source, Interpolated)
	}
	if least > 0 {
		ms *= x.bound(t.sheet(), tokens) / y.bound(t.sheet(), tokens)
	}
	return t.fill(Time{ms, source}, x.bound(t.sheet(), tokens), own)
}

// along returns the latency for a number of tokens. Outside of the curve, it uses the utilisation at the nearest end.
func (x *Experts) along(s *Sheet, c *curve, tokens int) float64 {
	if c.covers(tokens) {
		return c.at(tokens)
	}
	end := 0
	if tokens > int(c.axis[0]) {
		end = len(c.axis) - 1
	}
	return c.ms(end) * x.bound(s, tokens) / x.bound(s, int(c.axis[end]))
}

// bound returns the lower bound of the time of three products by the data sheet, in ms.
func (x *Experts) bound(s *Sheet, tokens int) float64 {
	h, i, tp, ep := float64(x.Hidden), float64(x.Inter), float64(max(x.TP, 1)), float64(max(x.EP, 1))
	pairs := float64(tokens) * float64(x.PerToken)
	ops := 6 * pairs * h * i / (ep * tp)
	used := min(float64(x.Count)/ep, pairs/ep)
	values := float64(2*pairs/ep*h) + float64(3*pairs/ep*i/tp) + float64(3*h*i/tp*used)
	return s.bound(ops, s.peak(x.Type), bytesOf(x.Type)*values)
}

// exactly returns the curve of an engine and a shape, or -1 if there is none.
func (t *Tables) exactly(e Engine, x Experts) int {
	table := t.table(expertsTable)
	engine, ok := table.word(e.String())
	dtype, known := table.word(x.Type)
	dist, shaped := table.word(x.Distribution)
	if !ok || !known || !shaped {
		return -1
	}
	k := key{engine, dtype, dist, int32(x.Hidden), int32(x.Inter), int32(x.PerToken), int32(x.Count), int32(x.TP), int32(x.EP)}
	if span := table.prefix(&k, maxColumns); span[1] > span[0] {
		return span[0]
	}
	return -1
}

// of returns the Experts of a curve.
func (x *Experts) of(table *table, curve int) Experts {
	k := &table.keys[curve]
	return Experts{
		table.words[k[expertType]], int(k[expertHidden]), int(k[expertInter]), int(k[expertPerToken]), int(k[expertCount]),
		int(k[expertTP]), int(k[expertEP]), table.words[k[expertDistribution]],
	}
}

// Dissimilarities of two layers of experts in properties that are not sizes. The distance of sizes is the distance of
// their logarithms.
const (
	otherDistribution = 0.01
	otherLoad         = 0.02 // another distribution, and only one of the two is even
	otherEngine       = 0.1
	sameShape         = 0.2 // layers with a smaller dissimilarity have the same shape
	otherType         = 8
)

// mostLike returns the curve that is most similar to a layer of experts, and their dissimilarity. The curve is -1 if
// there is none.
func (t *Tables) mostLike(e Engine, x Experts) (best int, least float64) {
	table := t.table(expertsTable)
	engine, ok := table.word(e.String())
	if !ok {
		engine = -1
	}
	best = -1
	for from := 0; from < len(table.keys); {
		k := &table.keys[from]
		span := table.prefix(k, expertHidden)
		base := x.unlike(table.words[k[expertType]], table.words[k[expertDistribution]])
		if k[expertEngine] != engine {
			base += otherEngine
		}
		for i := span[0]; i < span[1] && (best < 0 || base < least); i++ {
			y := x.of(table, i)
			if d := base + x.apart(&y); best < 0 || d < least {
				best, least = i, d
			}
		}
		from = span[1]
	}
	return best, least
}

// unlike returns the dissimilarity of a layer by its type and its distribution.
func (x *Experts) unlike(dtype, distribution string) (d float64) {
	if dtype != x.Type {
		d += otherType
		if bytesOf(dtype) != bytesOf(x.Type) {
			d += otherType
		}
	}
	even := func(name string) bool { return name == "balanced" || name == "uniform" }
	switch {
	case distribution == x.Distribution:
	case distribution == "uniform":
		d += otherDistribution
	case even(distribution) == even(x.Distribution):
		d += otherDistribution
	default:
		d += otherLoad
	}
	return d
}

// apart returns the dissimilarity of two layers by their sizes. Sizes per GPU count most.
func (x *Experts) apart(y *Experts) (d float64) {
	pairs := [...]struct {
		a, b   int
		weight float64
	}{
		{x.Hidden, y.Hidden, 1}, {x.Inter * y.TP, y.Inter * x.TP, 1}, {x.Count * y.EP, y.Count * x.EP, 1}, {x.PerToken, y.PerToken, 1},
		{x.EP, y.EP, 0.5}, {x.TP, y.TP, 0.25}, {x.Inter, y.Inter, 0.125}, {x.Count, y.Count, 0.125},
	}
	for _, p := range pairs {
		if p.a != p.b {
			d += float64(p.weight * sizesApart(p.a, p.b))
		}
	}
	if d > 0 {
		d += sameShape
	}
	return d
}
