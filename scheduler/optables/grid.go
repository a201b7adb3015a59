package optables

import "math"

// grid is the measurements of one kernel: curves with keys that differ only in the last one or two columns.
type grid struct {
	*Tables
	table *table
	span  [2]int   // range of the grid's curves
	load  workload // workload of the measured operator
}

// point is a shape: the last two key columns and the axis. If the grid has only one such column, the first value is
// not used.
type point [3]int

// first returns the first used index of points: 0 with two key columns, 1 with one key column.
func (g *grid) first() int { return 2 - min(2, g.table.form.columns-g.load.fixed) }

// at returns the latency of a shape. The latency is a measured point, or interpolated linearly between neighbours,
// level by level. If only one of two neighbours covers the shape, the latency of that neighbour is scaled by the
// bounds of the data sheet. A shape outside of all curves uses the utilisation of the nearest points.
func (g *grid) at(x point) Time {
	if ms, source, ok := g.inside(g.span, g.first(), x); ok {
		return Time{ms, source}
	}
	return Time{g.outside(x), Interpolated}
}

// inside returns the latency of a shape within the curves of a span. The keys of the span's curves are equal in the
// previous levels.
func (g *grid) inside(span [2]int, level int, x point) (float64, Source, bool) {
	if level == 2 {
		c := g.curve(g.table, span[0])
		if !c.covers(x[2]) {
			return 0, Measured, false
		}
		return c.at(x[2]), Measured, true
	}
	column := g.table.form.columns - 2 + level
	high := g.table.lower(span, column, int32(x[level]))
	if high == span[1] || high == span[0] && int(g.table.keys[high][column]) > x[level] {
		return 0, Measured, false
	}
	over := g.table.find([2]int{high, span[1]}, column, g.table.keys[high][column])
	if int(g.table.keys[high][column]) == x[level] {
		return g.inside(over, level+1, x)
	}
	below := g.table.keys[high-1][column]
	under := [2]int{g.table.lower([2]int{span[0], high}, column, below), high}
	return g.between([2][2]int{under, over}, level, x)
}

// between interpolates between two neighbours of a level.
func (g *grid) between(sides [2][2]int, level int, x point) (float64, Source, bool) {
	column := g.table.form.columns - 2 + level
	var at [2]point
	var ms [2]float64
	var ok [2]bool
	var source Source
	for i, span := range sides {
		at[i] = x
		at[i][level] = int(g.table.keys[span[0]][column])
		var s Source
		q := x // deeper levels are looked up with the original shape
		if ms[i], s, ok[i] = g.inside(span, level+1, q); ok[i] {
			source = max(source, s)
		}
	}
	switch {
	case ok[0] && ok[1]:
		if level == 0 {
			source = max(source, Interpolated)
		}
		share := float64(x[level]-at[0][level]) / float64(at[1][level]-at[0][level])
		if g.table.form.root && level == 1 {
			r := blendLinear(math.Sqrt(ms[0]), math.Sqrt(ms[1]), share)
			return r * r, source, true
		}
		return blendLinear(ms[0], ms[1], share), source, true
	case ok[0] || ok[1]:
		i := 0
		if ok[1] {
			i = 1
		}
		return ms[i] * g.load.bound(g.sheet(), x) / g.load.bound(g.sheet(), at[i]), Interpolated, true
	}
	return 0, Measured, false
}

// nearest is the number of nearest points that are used. Distances are in logarithms.
const nearest = 4

// outside returns the latency of a shape by the utilisation at the four nearest points. Each point at distance d has
// the weight ((R-d)/(R d))², where R is the distance of the fifth nearest point.
func (g *grid) outside(x point) float64 {
	near := nearPoints{from: g.first()}
	for i := near.from; i < 3; i++ {
		near.logs[i] = binaryLog(float64(max(x[i], 1)))
	}
	// Scan the curves with the same number of heads first: they are likely the nearest, so that most other curves are
	// skipped.
	column := g.table.form.columns - 2 + near.from
	alike := g.table.find(g.span, column, int32(x[near.from]))
	near.scan(g.table, alike)
	near.scan(g.table, [2]int{g.span[0], alike[0]})
	near.scan(g.table, [2]int{alike[1], g.span[1]})
	var u [nearest + 1]float64
	for i := range near.n {
		u[i] = g.utilisation(near.curve[i], near.at[i])
	}
	return g.load.bound(g.sheet(), x) / weighNearest(near.d[:near.n], u[:near.n])
}

// nearPoints is a list of the points nearest to a given point, ordered by distance.
type nearPoints struct {
	from  int        // first used index of points
	logs  [3]float64 // logarithms of the given point
	n     int
	d     [nearest + 1]float64 // squared distances, ascending
	curve [nearest + 1]int
	at    [nearest + 1]int // indices on the curves
}

// scan adds nearer points from the curves of a span.
func (p *nearPoints) scan(t *table, span [2]int) {
	for i := span[0]; i < span[1]; i++ {
		base := 0.0
		for l := p.from; l < 2; l++ {
			e := t.column[l][i] - p.logs[l]
			base += float64(e * e)
		}
		if p.n == len(p.d) && base >= p.d[nearest] {
			continue
		}
		for j, v := range t.logs[t.shape[i]] {
			e := v - p.logs[2]
			dist := base + float64(e*e)
			if p.n == len(p.d) && dist >= p.d[nearest] {
				continue
			}
			p.n = min(p.n+1, len(p.d))
			at := p.n - 1
			for ; at > 0 && p.d[at-1] > dist; at-- {
				p.d[at], p.curve[at], p.at[at] = p.d[at-1], p.curve[at-1], p.at[at-1]
			}
			p.d[at], p.curve[at], p.at[at] = dist, i, j
		}
	}
}

// weighNearest returns the weighted mean of utilisations u. d has the squared distances, ascending.
func weighNearest(d, u []float64) float64 {
	if len(d) == 0 {
		return 1
	}
	if d[0] == 0 {
		return u[0]
	}
	far := math.Inf(1)
	if len(d) > nearest {
		far, d = math.Sqrt(d[nearest]), d[:nearest]
	}
	sum, weights := 0.0, 0.0
	for i := range d {
		r := math.Sqrt(d[i])
		w := 1 / r
		if !math.IsInf(far, 1) {
			w = (far - r) / (far * r)
		}
		w *= w
		sum += float64(w * u[i])
		weights += w
	}
	if weights == 0 { // all points are as far as the fifth
		return u[0]
	}
	return sum / weights
}

// utilisation returns the share of the data-sheet bound that point j of curve i reaches.
func (g *grid) utilisation(i, j int) float64 {
	t := g.table
	columns := t.form.columns
	x := point{0, int(t.keys[i][columns-1]), int(t.axes[t.shape[i]][j])}
	if g.first() == 0 {
		x[0] = int(t.keys[i][columns-2])
	}
	c := g.curve(t, i)
	return g.load.bound(g.sheet(), x) / c.ms(j)
}
