package planner

import "math"

// sample is a measured pass: attention work, tokens, and its time in ms.
type sample struct {
	x [2]float64
	y float64
}

// store is samples that are spread evenly over their features, and the least-squares plane through them.
type store struct {
	most, least, bins int
	cells             map[[2]int][]sample // oldest sample first
	order             [][2]int            // cells in order of creation
	n                 int
	low, high         [2]float64 // bounds of the logarithms of features
	fit               plane
	ready             bool
}

// plane is y = at + slopes · (x − mean) / scale.
type plane struct {
	mean, scale, slope [2]float64
	at                 float64
}

func newStore(c *Config) *store {
	inf := math.Inf(1)
	return &store{
		most: c.Samples, least: c.MinObservations, bins: int(math.Sqrt(float64(c.Buckets))),
		cells: map[[2]int][]sample{}, low: [2]float64{inf, inf}, high: [2]float64{-inf, -inf},
	}
}

// add adds a sample. If there are too many samples, add drops the oldest sample of the fullest cell.
func (s *store) add(x sample) {
	wider := false
	for j, v := range x.x {
		l := math.Log1p(v)
		wider = wider || l < s.low[j] || l > s.high[j]
		s.low[j], s.high[j] = min(s.low[j], l), max(s.high[j], l)
	}
	if wider {
		s.sortAgain()
	}
	s.put(x)
	if s.n++; s.n > s.most {
		s.drop()
	}
	s.ready = s.solve()
}

func (s *store) put(x sample) {
	var cell [2]int
	for j, v := range x.x {
		if width := s.high[j] - s.low[j]; width > 0 {
			cell[j] = min(max(int((math.Log1p(v)-s.low[j])/width*float64(s.bins)), 0), s.bins-1)
		}
	}
	if _, ok := s.cells[cell]; !ok {
		s.order = append(s.order, cell)
	}
	s.cells[cell] = append(s.cells[cell], x)
}

// sortAgain assigns all samples to the cells of the present bounds.
func (s *store) sortAgain() {
	all := s.all()
	s.cells, s.order = map[[2]int][]sample{}, nil
	for _, x := range all {
		s.put(x)
	}
}

func (s *store) all() []sample {
	var all []sample
	for _, cell := range s.order {
		all = append(all, s.cells[cell]...)
	}
	return all
}

// drop drops the oldest sample of the fullest cell, and among equals of the cell created first.
func (s *store) drop() {
	most := s.order[0]
	for _, cell := range s.order {
		if len(s.cells[cell]) > len(s.cells[most]) {
			most = cell
		}
	}
	s.cells[most] = s.cells[most][1:]
	s.n--
}

// solve fits the least-squares plane with slopes of at least 0. solve reports whether a slope is above 0.
func (s *store) solve() bool {
	if s.n < s.least {
		return false
	}
	all, n := s.all(), float64(s.n)
	f := plane{scale: [2]float64{1, 1}}
	for _, x := range all {
		f.at += x.y / n
		f.mean[0] += x.x[0] / n
		f.mean[1] += x.x[1] / n
	}
	var axes []int
	for j := range f.mean {
		sum := 0.0
		for _, x := range all {
			sum += (x.x[j] - f.mean[j]) * (x.x[j] - f.mean[j])
		}
		if scale := math.Sqrt(sum / n); scale > 1e-12*max(1, math.Abs(f.mean[j])) {
			f.scale[j] = scale
			axes = append(axes, j)
		}
	}
	if len(axes) == 0 {
		return false
	}
	s.fit = bestFace(f, all, axes)
	return s.fit.slope[0] > 0 || s.fit.slope[1] > 0 || s.n <= len(axes)
}

// bestFace returns the best plane with positive slopes along some of the axes.
func bestFace(f plane, all []sample, axes []int) plane {
	var g [2][2]float64
	var h [2]float64
	for _, x := range all {
		u := f.transform(x.x)
		for i := range u {
			h[i] += u[i] * (x.y - f.at)
			for j := range u {
				g[i][j] += u[i] * u[j]
			}
		}
	}
	best, least := f, math.Inf(1)
	consider := func(b [2]float64) {
		if b[0] < 0 || b[1] < 0 {
			return
		}
		c := f
		c.slope = b
		sum := 0.0
		for _, x := range all {
			e := x.y - c.value(x.x)
			sum += e * e
		}
		if sum < least {
			best, least = c, sum
		}
	}
	consider([2]float64{})
	for _, j := range axes {
		var b [2]float64
		b[j] = h[j] / g[j][j]
		consider(b)
	}
	if len(axes) == 2 {
		consider(solvePair(g, h, float64(len(all))))
	}
	return best
}

// solvePair solves g b = h. If g is singular, a small ridge is added to the diagonal first.
func solvePair(g [2][2]float64, h [2]float64, n float64) [2]float64 {
	const pivot, ridge = 1e-12, 1e-9
	if math.Abs(g[1][1]-g[1][0]*g[0][1]/g[0][0]) < pivot {
		more := ridge * max(1, n+g[0][0]+g[1][1])
		g[0][0] += more
		g[1][1] += more
	}
	d := g[0][0]*g[1][1] - g[0][1]*g[1][0]
	return [2]float64{(h[0]*g[1][1] - h[1]*g[0][1]) / d, (g[0][0]*h[1] - g[1][0]*h[0]) / d}
}

func (f *plane) transform(x [2]float64) [2]float64 {
	return [2]float64{(x[0] - f.mean[0]) / f.scale[0], (x[1] - f.mean[1]) / f.scale[1]}
}

func (f *plane) value(x [2]float64) float64 {
	u := f.transform(x)
	return f.at + f.slope[0]*u[0] + f.slope[1]*u[1]
}

// estimate returns the time of a pass, in ms.
func (s *store) estimate(x [2]float64) (float64, bool) {
	if !s.ready {
		return 0, false
	}
	return max(s.fit.value(x), 1e-6), true
}
