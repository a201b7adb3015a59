package timing

import (
	"fmt"
	"math"
	"sort"
)

// Table is a measured profile: times at grid points, interpolated linearly between them and extrapolated from the
// outermost cells.
type Table struct {
	// PrefillTokens is strictly ascending, with at least two points.
	PrefillTokens []float64
	PrefillMS     []float64 // times at the points of PrefillTokens
	// ActiveTokens and ContextTokens are the axes of DecodeMS, like PrefillTokens.
	ActiveTokens  []float64
	ContextTokens []float64
	DecodeMS      []float64 // row by row: a row per point of ActiveTokens, a column per point of ContextTokens
}

// ByContext returns true: the second axis of the decode grid is the mean context.
func (*Table) ByContext() bool { return true }

// Prefill interpolates the profile at the number of tokens to compute.
func (t *Table) Prefill(batch, isl, prefix int) float64 {
	x := float64(batch * max(isl-prefix, 0))
	i := findCell(t.PrefillTokens, x)
	ms := lineAt(t.PrefillTokens[i], t.PrefillMS[i], t.PrefillTokens[i+1], t.PrefillMS[i+1], x)
	return max(ms, 0)
}

// Decode interpolates the profile at the tokens in the KV cache, then at the mean context. The result is at least 1
// ms.
func (t *Table) Decode(_, active, context, _ int) float64 {
	x, y := float64(active), float64(context)
	i, j := findCell(t.ActiveTokens, x), findCell(t.ContextTokens, y)
	z1, z2 := t.columnTime(i, j, x), t.columnTime(i, j+1, x)
	return max(lineAt(t.ContextTokens[j], z1, t.ContextTokens[j+1], z2, y), 1)
}

// columnTime returns the time at x in cell i of context column j.
func (t *Table) columnTime(i, j int, x float64) float64 {
	width := len(t.ContextTokens)
	return lineAt(t.ActiveTokens[i], t.DecodeMS[i*width+j], t.ActiveTokens[i+1], t.DecodeMS[(i+1)*width+j], x)
}

// findCell returns the index i of the cell [axis[i], axis[i+1]) with x. Values outside the grid belong to the
// outermost cells.
func findCell(axis []float64, x float64) int {
	i := sort.Search(len(axis), func(k int) bool { return axis[k] > x }) - 1
	return min(max(i, 0), len(axis)-2)
}

// lineAt returns the value at x of the straight line through two points. The order of operations is the reference's.
func lineAt(x1, y1, x2, y2, x float64) float64 {
	return float64((y2-y1)/(x2-x1)*(x-x1)) + y1
}

// check returns an error about the first invalid array, by its name in profile files.
func (t *Table) check() error {
	for _, a := range []struct {
		name   string
		values []float64
	}{
		{namePrefillTokens, t.PrefillTokens}, {nameActiveTokens, t.ActiveTokens}, {nameContextTokens, t.ContextTokens},
	} {
		if err := checkAxis(a.name, a.values); err != nil {
			return err
		}
	}
	if len(t.PrefillMS) != len(t.PrefillTokens) {
		return fmt.Errorf("%s has %d values, must have %d as in %s",
			namePrefillMS, len(t.PrefillMS), len(t.PrefillTokens), namePrefillTokens)
	}
	if want := len(t.ActiveTokens) * len(t.ContextTokens); len(t.DecodeMS) != want {
		return fmt.Errorf("%s has %d values, must have %d", nameDecodeMS, len(t.DecodeMS), want)
	}
	if err := checkFinite(namePrefillMS, t.PrefillMS); err != nil {
		return err
	}
	return checkFinite(nameDecodeMS, t.DecodeMS)
}

func checkAxis(name string, axis []float64) error {
	if err := checkFinite(name, axis); err != nil {
		return err
	}
	if len(axis) < 2 {
		return fmt.Errorf("%s has %d points, must have at least 2", name, len(axis))
	}
	for i := 1; i < len(axis); i++ {
		if axis[i-1] >= axis[i] {
			return fmt.Errorf("%s[%d] is %v after %v, must be strictly rising values", name, i, axis[i], axis[i-1])
		}
	}
	return nil
}

func checkFinite(name string, values []float64) error {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %v, must be a finite number", name, i, v)
		}
	}
	return nil
}
