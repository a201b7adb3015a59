package collector

import (
	"encoding/binary"
	"math"
)

// spans is inter-token latencies in whole ns, each with the number of requests that had it. Successive latencies of
// long runs mostly grow by a constant step, plus or minus one. Each latency therefore takes little more than a byte.
type spans struct {
	chunks []spanChunk
	n      int64     // number of latencies
	fold   *spanFold // where full chunks are folded; nil: all are kept
}

// spanChunk is encoded spans, one after the other: a word, then the offs. The word contains the first latency (29
// bits), the step (16 bits from atStep on), the weight (11 bits from atWeight on), the number of latencies minus one
// (7 bits from atLength on) and isWide. If isWide is set, the first latency has 40 bits, and the step and the weight
// follow in four bytes each.
type spanChunk struct {
	text []byte
}

// span is the latencies of successive passes with the same number of requests. The second latency is the first plus
// step. Each later latency is the previous one plus step and an int8, its off.
type span struct {
	head   uint64 // the first latency, and the number of latencies from lengthBits on
	step   int32
	weight uint32
}

const (
	lengthBits    = 40
	bytesPerChunk = 1 << 16
	mostInSpan    = 128             // latencies
	spanBytes     = 16 + mostInSpan // maximum size of a span

	// Bit positions in the word of a span.
	atStep   = 29
	atWeight = 45
	atLength = 56
	isWide   = 1 << 63
)

// add adds successive latencies that weight requests had. Latencies must be below 2^40, and weight below 2^32.
func (s *spans) add(nanos []int64, weight int64) {
	if weight == 0 {
		return
	}
	s.n += weight * int64(len(nanos))
	for len(nanos) > 0 {
		last := len(s.chunks) - 1
		switch {
		case last >= 0 && !s.chunks[last].isFull():
		case last >= 0 && s.fold != nil:
			s.fold.addChunk(&s.chunks[last])
		default:
			s.chunks = append(s.chunks, spanChunk{text: make([]byte, 0, bytesPerChunk)})
			last++
		}
		nanos = nanos[s.chunks[last].addSpan(nanos[:min(len(nanos), mostInSpan)], weight):]
	}
}

func (c *spanChunk) isFull() bool {
	return cap(c.text)-len(c.text) < spanBytes
}

// addSpan adds a span with as many of the first latencies as fit, and returns their number.
func (c *spanChunk) addSpan(nanos []int64, weight int64) (n int) {
	step := int64(0)
	if len(nanos) > 1 {
		step = nanos[1] - nanos[0]
	}
	at, order := len(c.text), binary.LittleEndian
	text, word := order.AppendUint64(c.text, 0), uint64(nanos[0])
	if nanos[0] < 1<<atStep && step == int64(int16(step)) && weight < 1<<(atLength-atWeight) {
		word |= uint64(uint16(step))<<atStep | uint64(weight)<<atWeight
	} else {
		word |= isWide
		text = order.AppendUint32(text, uint32(step))
		text = order.AppendUint32(text, uint32(weight))
	}
	if n = 1; len(nanos) > 1 && step == int64(int32(step)) {
		offs, before := len(text), nanos[1]
		for _, at := range nanos[2:] {
			off := at - before - step
			if off != int64(int8(off)) {
				break
			}
			text, before = append(text, byte(off)), at
		}
		n = 2 + len(text) - offs
	}
	order.PutUint64(text[at:], word|uint64(n-1)<<atLength)
	c.text = text
	return n
}

// each calls visit with the spans of a chunk and their offs.
func (c *spanChunk) each(visit func(k *span, offs []byte)) {
	var k span
	order := binary.LittleEndian
	for text := c.text; len(text) > 0; {
		word := order.Uint64(text)
		n := int(word>>atLength&(mostInSpan-1)) + 1
		if text = text[8:]; word&isWide == 0 {
			k.head = word & (1<<atStep - 1)
			k.step, k.weight = int32(int16(word>>atStep)), uint32(word>>atWeight&(1<<(atLength-atWeight)-1))
		} else {
			k.head = word & (1<<lengthBits - 1)
			k.step, k.weight = int32(order.Uint32(text)), order.Uint32(text[4:])
			text = text[8:]
		}
		k.head |= uint64(n) << lengthBits
		offs := text[:max(0, n-2)]
		text = text[len(offs):]
		visit(&k, offs)
	}
}

func (k *span) first() int64 { return int64(k.head & (1<<lengthBits - 1)) }
func (k *span) count() int   { return int(k.head >> lengthBits) }

// empty removes all spans.
func (s *spans) empty() {
	s.chunks, s.n = nil, 0
	if s.fold != nil {
		s.fold.total = nil
		s.fold.spool.empty()
	}
}

// each calls visit with all spans and their offs. Sketched spans are not included.
func (s *spans) each(visit func(k *span, offs []byte)) {
	if s.fold != nil && s.fold.spool != nil {
		s.fold.spool.eachSpan(visit)
	}
	s.eachKept(visit)
}

// eachKept calls visit with the spans of chunks.
func (s *spans) eachKept(visit func(k *span, offs []byte)) {
	for i := range s.chunks {
		s.chunks[i].each(visit)
	}
}

// bounds returns a lower and an upper bound of the latencies.
func (k *span) bounds() (least, most int64) {
	first, n := k.first(), int64(k.count())
	last := first + (n-1)*int64(k.step)
	slack := -math.MinInt8 * n
	return min(first, last) - slack, max(first, last) + slack
}

// nanos returns the latencies in buf.
func (k *span) nanos(offs []byte, buf *[mostInSpan]int64) []int64 {
	buf[0] = k.first()
	if k.count() == 1 {
		return buf[:1]
	}
	step := int64(k.step)
	at := buf[0] + step
	buf[1] = at
	out := buf[2:][:len(offs)]
	for i, off := range offs {
		at += step + int64(int8(off))
		out[i] = at
	}
	return buf[:k.count()]
}
