package sliding

import "iter"

// Table maps indices from 0 to values, for a moving range of indices such as the ids of requests in flight. Table
// uses memory for pages in which a value is set, and one pointer for each other page. The zero value is empty.
type Table[T comparable] struct {
	pages []*page[T] // nil: no value of the page is set
	spare *page[T]   // an unused page with no values set
}

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

type page[T comparable] struct {
	set    int // number of values that are set
	values [pageSize]T
}

// Get returns the value at an index, or the zero value if no value is set.
func (t *Table[T]) Get(i int) (v T) {
	if at := i >> pageBits; at < len(t.pages) && t.pages[at] != nil {
		return t.pages[at].values[i&(pageSize-1)]
	}
	return v
}

// Set sets the value at an index. Setting the zero value removes the value.
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

// addPage adds the page at an index of pages.
func (t *Table[T]) addPage(at int) {
	for at >= len(t.pages) {
		t.pages = append(t.pages, nil)
	}
	if t.pages[at] = t.spare; t.spare == nil {
		t.pages[at] = new(page[T])
	}
	t.spare = nil
}

// All yields the values that are set, with their indices.
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
