package collector

import (
	"encoding/binary"
)

// spans are inter-token latencies in whole ns, each with the number of requests that had
// it. They are kept as facts, in a byte or two each: those of successive passes mostly
// grow by the same step, give or take one.
type spans struct {
	chunks [][]byte // of entries, none of which goes across two
	n      int64    // latencies
}

// entry is the latencies of successive passes, which as many requests had. After the
// first two each is the one before, the step between these, and a byte more.
type entry struct {
	weight      int64
	first, step int64
	count       int
	rest        []byte // of count-2 latencies
}

const (
	spanChunk  = 1 << 16               // bytes
	mostInSpan = 128                   // latencies of an entry
	longest    = 3*10 + 1 + mostInSpan // bytes of an entry at most
)

// add notes latencies that weight requests had, one after the other. They are below 2^62.
func (s *spans) add(nanos []int64, weight int64) {
	if weight == 0 {
		return
	}
	s.n += weight * int64(len(nanos))
	for len(nanos) > 0 {
		nanos = nanos[s.addEntry(nanos[:min(len(nanos), mostInSpan)], weight):]
	}
}

// addEntry makes an entry of the first latencies and returns how many it holds.
func (s *spans) addEntry(nanos []int64, weight int64) (n int) {
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < longest {
		s.chunks = append(s.chunks, make([]byte, 0, spanChunk))
		last++
	}
	b := binary.AppendUvarint(s.chunks[last], uint64(weight))
	b = binary.AppendUvarint(b, uint64(nanos[0]))
	count := len(b)
	b = append(b, 0)
	if n = 1; len(nanos) > 1 {
		step := nanos[1] - nanos[0]
		b = binary.AppendVarint(b, step)
		for n = 2; n < len(nanos); n++ {
			off := nanos[n] - nanos[n-1] - step
			if off != int64(int8(off)) {
				break
			}
			b = append(b, byte(off))
		}
	}
	b[count] = byte(n)
	s.chunks[last] = b
	return n
}

// each shows all entries, which are valid until visit returns.
func (s *spans) each(visit func(*entry)) {
	var e entry
	for _, b := range s.chunks {
		for len(b) > 0 {
			b = e.read(b)
			visit(&e)
		}
	}
}

// read takes the first entry of b and returns what follows.
func (e *entry) read(b []byte) []byte {
	weight, n := binary.Uvarint(b)
	first, m := binary.Uvarint(b[n:])
	*e = entry{weight: int64(weight), first: int64(first), count: int(b[n+m])}
	b = b[n+m+1:]
	if e.count > 1 {
		e.step, n = binary.Varint(b)
		e.rest, b = b[n:n+e.count-2], b[n+e.count-2:]
	}
	return b
}

// bounds returns limits of the latencies, which may lie inside them.
func (e *entry) bounds() (least, most int64) {
	last := e.first + int64(e.count-1)*e.step
	slack := int64(len(e.rest)) * 128
	return min(e.first, last) - slack, max(e.first, last) + slack
}

// nanos returns the latencies, in buf.
func (e *entry) nanos(buf *[mostInSpan]int64) []int64 {
	buf[0] = e.first
	if e.count == 1 {
		return buf[:1]
	}
	at := e.first + e.step
	buf[1] = at
	out := buf[2:][:len(e.rest)]
	for i, off := range e.rest {
		at += e.step + int64(int8(off))
		out[i] = at
	}
	return buf[:e.count]
}
