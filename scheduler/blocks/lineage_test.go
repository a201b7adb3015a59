package blocks

import (
	"fmt"
	"testing"
)

// chains adds blocks by number to a catalog, each as the child of the previous block.
func chains(k *Catalog, lists ...[]int32) {
	for _, list := range lists {
		parent := NoBlock
		for _, i := range list {
			parent, _ = k.Add(Name{index: i}, parent)
		}
	}
}

func number(k *Catalog, i int32) ID { return k.Find(Name{index: i}) }

// The order of eviction follows docs/rules/vllm.md "The reference's rules". Two chains with a common head are
// released last block first, then the head is used again.
func TestLineageEvictsTheOldestLeaf(t *testing.T) {
	k := newCatalog()
	chains(k, []int32{0, 1, 2, 3, 4}, []int32{0, 1, 5, 6}, []int32{0, 1, 2, 7, 8, 9})
	l := NewLineage(k)
	for _, i := range []int32{4, 3, 2, 6, 5, 1, 0} {
		l.Insert(number(k, i))
	}
	for _, i := range []int32{0, 1, 2} {
		l.Remove(number(k, i))
	}
	l.Check("test")
	var got []int32
	for range 4 {
		got = append(got, k.blocks[l.Evict()].Name.index)
		l.Check("test")
	}
	if want := "[4 3 6 5]"; fmt.Sprint(got) != want || l.len != 0 || l.Evict() != NoBlock {
		t.Errorf("evicted %v, %d left, want %v and none", got, l.len, want)
	}
}

// A prefix released first block first is older than its tail. The tail is evicted first nevertheless, and after that
// the order follows the stamps.
func TestLineageKeepsParents(t *testing.T) {
	k := newCatalog()
	chains(k, []int32{0, 1, 2}, []int32{3}, []int32{4, 5})
	l := NewLineage(k)
	for _, i := range []int32{0, 1, 3, 2, 5} { // block 4 stays in use and becomes a ghost
		l.Insert(number(k, i))
	}
	var got []int32
	for b := l.Evict(); b != NoBlock; b = l.Evict() {
		got = append(got, k.blocks[b].Name.index)
		l.Check("test")
	}
	if want := "[3 2 1 0 5]"; fmt.Sprint(got) != want {
		t.Errorf("evicted %v, want %v", got, want)
	}
}

// Blocks that are used and released repeatedly do not accumulate in leaves.
func TestLineageStaysSmall(t *testing.T) {
	k := newCatalog()
	chains(k, []int32{0, 1, 2})
	l := NewLineage(k)
	for range 10_000 {
		for i := int32(2); i >= 0; i-- {
			l.Insert(number(k, i))
		}
		for i := range int32(3) {
			l.Remove(number(k, i))
		}
	}
	if n := len(l.leaves); n > 2*leafSlack {
		t.Errorf("%d entries for no block", n)
	}
}
