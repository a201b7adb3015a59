package sliding

import "iter"

// Table holds values by the places 0, 1, 2, ..., of which a moving range is set at a time, such as requests in flight
// by their id. Its memory is that of the stretches in which a value is set, and a little for each that ever had one.
// The zero value is empty.
type Table[T comparable] struct {
	pages []*page[T] // nil: no value of it is set
	spare *page[T]   // of no use now, all unset
}

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

type page[T comparable] struct {
	set    int // values that are
	values [pageSize]T
}

// Get returns the value at a place, the zero value where none is set.
func (t *Table[T]) Get(i int) (v T) {
	if at := i >> pageBits; at < len(t.pages) && t.pages[at] != nil {
		return t.pages[at].values[i&(pageSize-1)]
	}
	return v
}

// Set sets the value at a place; the zero value gives its memory up.
func (t *Table[T]) Set(i int, v T) {
	var zero T
	at := i >> pageBits
	if at >= len(t.pages) || t.pages[at] == nil {
		if v == zero {
			return
		}
		t.addPage(at)
	}
	p := t.pages[at]
	x := &p.values[i&(pageSize-1)]
	if *x != zero {
		p.set--
	}
	if *x = v; v != zero {
		p.set++
	} else if p.set == 0 {
		t.pages[at], t.spare = nil, p
	}
}

// addPage makes room for a page's values.
func (t *Table[T]) addPage(at int) {
	for at >= len(t.pages) {
		t.pages = append(t.pages, nil)
	}
	if t.pages[at] = t.spare; t.spare == nil {
		t.pages[at] = new(page[T])
	}
	t.spare = nil
}

// All yields the values that are set, by their places.
func (t *Table[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		var zero T
		for at, p := range t.pages {
			if p == nil {
				continue
			}
			for i, v := range p.values {
				if v != zero && !yield(at<<pageBits+i, v) {
					return
				}
			}
		}
	}
}
