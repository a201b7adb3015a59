package optables

import "slices"

// nearSite is the maximum squared distance of a matrix to a near measured matrix. Distances are in binary logarithms.
const nearSite = 2 * 2

// sameDistance is the tolerance within which two squared distances are equal.
const sameDistance = 1e-9

// GEMM returns the time of a product of m tokens with a matrix of n outputs and k inputs. Types are bfloat16, fp8,
// fp8_block, nvfp4, int8_wo and int4_wo.
func (t *Tables) GEMM(dtype string, m, n, k int) Time {
	own := boundGEMM(t.Sheet(), dtype, [3]int{m, n, k})
	table := t.table(gemmTable)
	for i, known := range similarTypes(dtype) {
		word, ok := table.word(known)
		if !ok {
			continue
		}
		q := product{t, table, known, table.prefix(&key{word}, 1)}
		found := q.at(m, n, k)
		if i > 0 { // a matrix of another type is scaled to the same utilisation
			found = Time{found.Ms * boundGEMM(t.sheet(), dtype, [3]int{m, n, k}) / q.bound(m, n, k), Filled}
		}
		return t.fill(found, boundGEMM(t.sheet(), dtype, [3]int{m, n, k}), own)
	}
	return Time{own, Filled}
}

// similarTypes returns a type, followed by the types with a similar utilisation, for use if the type was not
// measured.
func similarTypes(dtype string) [5]string {
	switch {
	case dtype == "nvfp4":
		return [5]string{dtype, "fp8", "fp8_block", "bfloat16", "int4_wo"}
	case bytesOf(dtype) == 1:
		return [5]string{dtype, "fp8", "fp8_block", "int8_wo", "bfloat16"}
	}
	return [5]string{dtype, "bfloat16", "int8_wo", "fp8", "fp8_block"}
}

func boundGEMM(s *Sheet, dtype string, shape [3]int) float64 {
	m, n, k := float64(shape[0]), float64(shape[1]), float64(shape[2])
	return s.bound(2*m*n*k, s.peak(dtype), bytesOf(dtype)*(m*n+m*k+n*k))
}

// product is the measured matrices of a type.
type product struct {
	*Tables
	table *table
	dtype string
	span  [2]int
}

func (q *product) bound(m, n, k int) float64 { return boundGEMM(q.sheet(), q.dtype, [3]int{m, n, k}) }

// at returns the time of a product. A measured matrix uses its own curve, and another matrix uses the utilisation of
// the nearest measured matrices.
func (q *product) at(m, n, k int) Time {
	if site := q.table.find(q.table.find(q.span, 1, int32(n)), 2, int32(k)); site[1] > site[0] {
		i := site[0]
		source := Measured
		if c := q.curve(q.table, i); !c.covers(m) {
			source = Interpolated
		}
		return Time{q.along(i, m), source}
	}
	found, source := q.neighbours(m, n, k)
	sum, weights := 0.0, 0.0
	for _, s := range found {
		if s.site < 0 {
			continue
		}
		key := &q.table.keys[s.site]
		w := 1 / (s.distance + 1e-12)
		sum += float64(w * (q.bound(m, int(key[1]), int(key[2])) / q.along(s.site, m)))
		weights += w
	}
	if weights == 0 {
		return Time{q.bound(m, n, k), Filled}
	}
	return Time{q.bound(m, n, k) / (sum / weights), source}
}

// along returns the time of a measured matrix. Outside of its curve, it uses the median utilisation of the three
// points at the nearest end.
func (q *product) along(site, m int) float64 {
	c := q.curve(q.table, site)
	if c.covers(m) {
		return c.at(m)
	}
	k := &q.table.keys[site]
	n := min(3, len(c.axis))
	from := 0
	if m > int(c.axis[0]) {
		from = len(c.axis) - n
	}
	var u [3]float64
	for i := range n {
		u[i] = q.bound(int(c.axis[from+i]), int(k[1]), int(k[2])) / c.ms(from+i)
	}
	slices.Sort(u[:n])
	return q.bound(m, int(k[1]), int(k[2])) / u[n/2]
}

// neighbour is a measured matrix near another matrix.
type neighbour struct {
	site     int     // -1: none
	distance float64 // squared distance in binary logarithms
}

// neighbours returns the four nearest measured matrices with curves that cover m. neighbours prefers matrices within
// nearSite. If one side, for example the vocabulary, is larger than all measured matrices, only the other side must
// be near. If there are no such matrices, neighbours returns the nearest of all matrices.
func (q *product) neighbours(m, n, k int) ([nearest]neighbour, Source) {
	for _, reach := range [...]reachOf{{all: true}, {n: true}, {k: true}} {
		if found := q.search([3]int{m, n, k}, reach, true); found[0].site >= 0 {
			return found, Interpolated
		}
	}
	if found := q.search([3]int{m, n, k}, reachOf{}, true); found[0].site >= 0 {
		return found, Filled
	}
	return q.search([3]int{m, n, k}, reachOf{}, false), Filled
}

// reachOf selects the sides of a neighbour that must be near: both together, or only one if the other side is larger
// than all measured matrices.
type reachOf struct{ all, n, k bool }

// search returns the nearest matrices for which the sides in reach are near.
func (q *product) search(shape [3]int, reach reachOf, covered bool) (found [nearest]neighbour) {
	for i := range found {
		found[i].site = -1
	}
	n, k := binaryLog(float64(shape[1])), binaryLog(float64(shape[2]))
	if reach.n || reach.k {
		widest, deepest := q.largest(shape[0])
		if reach.n && !(shape[2] > deepest && shape[1] <= widest) || reach.k && !(shape[1] > widest && shape[2] <= deepest) {
			return found
		}
	}
	for i := q.span[0]; i < q.span[1]; i++ {
		dn, dk := q.table.column[0][i]-n, q.table.column[1][i]-k
		dn, dk = float64(dn*dn), float64(dk*dk)
		last := found[nearest-1]
		if reach.all && dn+dk > nearSite || reach.n && dn > nearSite || reach.k && dk > nearSite || last.site >= 0 && dn+dk > last.distance+sameDistance {
			continue
		}
		if c := q.curve(q.table, i); covered && !c.covers(shape[0]) {
			continue
		}
		q.placeNeighbour(&found, neighbour{i, dn + dk})
	}
	return found
}

// placeNeighbour inserts a neighbour in the order of distance. Neighbours with equal distance are in the order of
// their inputs.
func (q *product) placeNeighbour(found *[nearest]neighbour, x neighbour) {
	for i := range found {
		if found[i].site < 0 || q.isNearer(x, found[i]) {
			found[i], x = x, found[i]
			if x.site < 0 {
				return
			}
		}
	}
}

// isNearer reports whether a precedes b: it is nearer, or as near with fewer inputs. Distances within the rounding of
// logarithms are equal.
func (q *product) isNearer(a, b neighbour) bool {
	if d := a.distance - b.distance; d < -sameDistance || d > sameDistance {
		return d < 0
	}
	return q.table.keys[a.site][2] < q.table.keys[b.site][2]
}

// largest returns the largest sides of measured matrices with curves that cover m.
func (q *product) largest(m int) (n, k int) {
	for i := q.span[0]; i < q.span[1]; i++ {
		if c := q.curve(q.table, i); c.covers(m) {
			n, k = max(n, int(q.table.keys[i][1])), max(k, int(q.table.keys[i][2]))
		}
	}
	return n, k
}
