package collector

import (
	"encoding/binary"
	"math"
)

// spans are inter-token latencies in whole ns, each with the number of requests that had
// it. They are kept as facts, in little more than a byte each where runs are long: those of
// successive passes mostly grow by the same step, give or take one.
type spans struct {
	chunks []spanChunk
	n      int64     // latencies
	fold   *spanFold // where full chunks go; nil: all are kept
}

// spanChunk is spans one after the other, as text: how many latencies a span has, as a byte, then
// varints of its weight, of the first latency (the difference to that of the span before) and of the
// step, then the offs.
type spanChunk struct {
	text  []byte
	first int64 // latency of the latest span
}

// span is the latencies of successive passes, which as many requests had. After the first
// two each is the one before and step and an off, an int8.
type span struct {
	head   uint64 // the first, and from lengthBits on how many there are
	step   int32
	weight uint32
}

const (
	lengthBits    = 40
	bytesPerChunk = 1 << 16
	mostInSpan    = 128                                      // latencies
	spanBytes     = 1 + 3*binary.MaxVarintLen64 + mostInSpan // of a span, at most
)

// add notes latencies that weight requests had, one after the other. They are below 2^40,
// the weight below 2^32.
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

// addSpan makes a span of the first latencies and returns how many it holds.
func (c *spanChunk) addSpan(nanos []int64, weight int64) (n int) {
	count := len(c.text)
	c.text = append(c.text, 1)
	c.text = binary.AppendUvarint(c.text, uint64(weight))
	c.text = binary.AppendVarint(c.text, nanos[0]-c.first)
	c.first = nanos[0]
	if len(nanos) == 1 {
		return 1
	}
	step := nanos[1] - nanos[0]
	if step != int64(int32(step)) {
		return 1
	}
	text, before := binary.AppendVarint(c.text, step), nanos[1]
	n = 2
	for _, at := range nanos[2:] {
		off := at - before - step
		if off != int64(int8(off)) {
			break
		}
		text, before = append(text, byte(off)), at
		n++
	}
	text[count] = byte(n)
	c.text = text
	return n
}

// each shows the spans of a chunk, with their offs.
func (c *spanChunk) each(visit func(k *span, offs []byte)) {
	var k span
	first := int64(0)
	for text := c.text; len(text) > 0; {
		n := int(text[0])
		weight, size := binary.Uvarint(text[1:])
		text = text[1+size:]
		more, size := binary.Varint(text)
		text, first = text[size:], first+more
		k = span{head: uint64(first) | uint64(n)<<lengthBits, weight: uint32(weight)}
		offs := text[:0]
		if n > 1 {
			step, size := binary.Varint(text)
			k.step = int32(step)
			offs, text = text[size:size+n-2], text[size+n-2:]
		}
		visit(&k, offs)
	}
}

func (k *span) first() int64 { return int64(k.head & (1<<lengthBits - 1)) }
func (k *span) count() int   { return int(k.head >> lengthBits) }

// empty forgets all spans.
func (s *spans) empty() {
	s.chunks, s.n = nil, 0
	if s.fold != nil {
		s.fold.total = nil
		s.fold.spool.empty()
	}
}

// each shows all spans, with their offs. Those that are sketched are not there any more.
func (s *spans) each(visit func(k *span, offs []byte)) {
	if s.fold != nil && s.fold.spool != nil {
		s.fold.spool.eachSpan(visit)
	}
	s.eachKept(visit)
}

// eachKept shows the spans of chunks.
func (s *spans) eachKept(visit func(k *span, offs []byte)) {
	for i := range s.chunks {
		s.chunks[i].each(visit)
	}
}

// bounds returns two values between which the latencies lie.
func (k *span) bounds() (least, most int64) {
	first, n := k.first(), int64(k.count())
	last := first + (n-1)*int64(k.step)
	slack := -math.MinInt8 * n
	return min(first, last) - slack, max(first, last) + slack
}

// nanos returns the latencies, in buf.
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
