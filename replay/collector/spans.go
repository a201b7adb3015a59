package collector

import (
	"encoding/binary"
	"math"
)

// spans are inter-token latencies in whole ns, each with the number of requests that had it. They are kept in little
// more than a byte each in long runs, since those of successive passes mostly grow by the same step, give or take one.
type spans struct {
	chunks []spanChunk
	n      int64     // latencies
	fold   *spanFold // where full chunks go; nil: all are kept
}

// spanChunk is spans one after the other, as text: a word, and the offs. The word has the first latency (29 bits), the step
// (16 bits from atStep on), the weight (11 bits from atWeight on), how many latencies there are less one (7 bits from
// atLength on) and isWide. In that of a wide span the first latency has 40 bits, and the step and the weight follow in four
// bytes each.
type spanChunk struct {
	text []byte
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
	mostInSpan    = 128             // latencies
	spanBytes     = 16 + mostInSpan // of a span, at most

	// Places in the word of a span.
	atStep   = 29
	atWeight = 45
	atLength = 56
	isWide   = 1 << 63
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

// each shows the spans of a chunk, with their offs.
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

// empty forgets all spans.
func (s *spans) empty() {
	s.chunks, s.n = nil, 0
	if s.fold != nil {
		s.fold.total = nil
		s.fold.spool.empty()
	}
}

// each shows all spans, with their offs. Sketched spans are not there any more.
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
