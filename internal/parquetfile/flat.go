package parquetfile

import (
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// Has reports whether the file has a column with the given name.
func (f *File) Has(name string) bool { return f.find(name) >= 0 }

func (f *File) find(name string) int {
	for i, n := range f.leaves {
		if n.Name == name {
			return i
		}
	}
	return -1
}

// Ints returns an integer column. A missing value is 0.
func (f *File) Ints(name string) ([]int64, error) {
	return readFlat(f, name, format.Int64, func(v *values, i int) int64 { return int64(v.numbers[i]) })
}

// Doubles returns a column of numbers. A missing value is 0.
func (f *File) Doubles(name string) ([]float64, error) {
	return readFlat(f, name, format.Double, func(v *values, i int) float64 { return math.Float64frombits(v.numbers[i]) })
}

// Texts returns a text column. A missing value is "".
func (f *File) Texts(name string) ([]string, error) {
	return readFlat(f, name, format.ByteArray, func(v *values, i int) string { return string(v.texts[i]) })
}

// readFlat reads a column without lists.
func readFlat[T any](f *File, name string, kind format.Type, value func(v *values, i int) T) (all []T, err error) {
	at := f.find(name)
	if at < 0 {
		return nil, fmt.Errorf("no column %s", name)
	}
	leaf := f.leaves[at]
	if leaf.repetition > 0 || leaf.Type.V != kind {
		return nil, fmt.Errorf("%s: type %v, must be %v", name, leaf.Type.V, kind)
	}
	for g := range f.meta.RowGroups {
		c, err := f.openColumn(&f.meta.RowGroups[g], at)
		if err != nil {
			return nil, err
		}
		for {
			p, err := c.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(all)+p.levels > f.Rows() {
				return nil, fmt.Errorf("%s: more than %d rows", name, f.Rows())
			}
			n := 0
			for i := range p.levels {
				var x T
				if p.defined == nil || p.defined[i] == leaf.defined {
					x = value(&p.values, n)
					n++
				}
				all = append(all, x)
			}
		}
	}
	if len(all) != f.Rows() {
		return nil, fmt.Errorf("%s: %d rows, must be %d", name, len(all), f.Rows())
	}
	return all, nil
}
