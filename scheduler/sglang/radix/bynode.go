package radix

// ByNode is a list of items for each node of a tree.
type ByNode[T any] [][]T

// Set sets the list of node n.
func (b *ByNode[T]) Set(n int32, list []T) {
	for int(n) >= len(*b) {
		*b = append(*b, nil)
	}
	(*b)[n] = list
}

// Split moves the first items of lower to upper.
func (b *ByNode[T]) Split(upper, lower int32, items int) {
	all := (*b)[lower]
	b.Set(lower, all[items:])
	b.Set(upper, all[:items:items])
}

// Cut removes the items of n from index from on, and returns them.
func (b ByNode[T]) Cut(n int32, from int) []T {
	gone := b[n][from:]
	if b[n] = b[n][:from]; from == 0 {
		b[n] = nil
	}
	return gone
}
