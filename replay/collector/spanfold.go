package collector

import (
	"encoding/binary"
	"slices"
)

// spanFold is the sums of latencies that are no longer in chunks.
type spanFold struct {
	total *spanTotal // nil: no chunk has been folded
	spool *spool     // the spans in order; nil: the spans are sketched
}

// addChunk folds a chunk and empties it.
func (f *spanFold) addChunk(c *spanChunk) {
	if f.total == nil {
		f.total = newSpanTotal()
	}
	var buf [mostInSpan]int64
	c.each(func(k *span, offs []byte) {
		f.total.addSpan(k.nanos(offs, &buf), int64(k.weight))
		if f.spool != nil {
			f.spool.addSpan(k, offs)
		}
	})
	c.text = c.text[:0]
}

// addSpan appends a span as two words, followed by its offs, 8 per word.
func (s *spool) addSpan(k *span, offs []byte) {
	s.add(k.head)
	s.add(uint64(uint32(k.step))<<32 | uint64(k.weight))
	for part := range slices.Chunk(offs, 8) {
		var word [8]byte
		copy(word[:], part)
		s.add(binary.LittleEndian.Uint64(word[:]))
	}
}

// eachSpan calls visit with all spans and their offs.
func (s *spool) eachSpan(visit func(k *span, offs []byte)) {
	var k span
	offs, at, left := make([]byte, 0, mostInSpan+8), 0, 0 // left is the number of offs of k that have not been read
	s.each(func(words []int64) {
		for _, w := range words {
			switch at {
			case 0:
				k.head, at = uint64(w), 1
				continue
			case 1:
				k.step, k.weight = int32(w>>32), uint32(w)
				offs, left, at = offs[:0], max(0, k.count()-2), 2
			default:
				offs = binary.LittleEndian.AppendUint64(offs, uint64(w))
				left -= 8
			}
			if left <= 0 {
				visit(&k, offs[:max(0, k.count()-2)])
				at = 0
			}
		}
	})
}

// pickSketched returns the middles of the buckets that contain ranks.
func (t *spanTotal) pickSketched(ranks []int64) []int64 {
	out := make([]int64, len(ranks))
	for i, r := range ranks {
		b, below := 0, int64(0)
		for ; below+t.coarse[b] <= r; b++ {
			below += t.coarse[b]
		}
		out[i] = t.middleOf(b)
	}
	return out
}

// middleOf returns the middle of a bucket, limited to the bounds of all latencies.
func (t *spanTotal) middleOf(bucket int) int64 {
	return min(max((firstOf(bucket)+firstOf(bucket+1)-1)/2, t.least), t.most)
}
