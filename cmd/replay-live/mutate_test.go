package main

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// mutator makes inputs that nobody should send of good ones.
type mutator struct {
	rng    *rand.Rand
	number *regexp.Regexp
}

func newMutator(seed, place uint64) *mutator {
	return &mutator{rand.New(rand.NewPCG(seed, place)), regexp.MustCompile(`-?\d+(\.\d+)?|true|false|null|"[^"]{0,40}"`)}
}

// mutate returns b with one to four things wrong.
func (m *mutator) mutate(b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + m.rng.IntN(4) {
		b = m.mutateOnce(b)
	}
	return b
}

// span returns a random part of b.
func (m *mutator) span(b []byte) (from, to int) {
	from = m.rng.IntN(len(b) + 1)
	return from, from + m.rng.IntN(len(b)-from+1)
}

func (m *mutator) mutateOnce(b []byte) []byte {
	from, to := m.span(b)
	switch m.rng.IntN(10) {
	case 0: // truncated
		return b[:from]
	case 1: // bits flipped
		for range 1 + m.rng.IntN(8) {
			if len(b) > 0 {
				b[m.rng.IntN(len(b))] ^= 1 << m.rng.IntN(8)
			}
		}
	case 2: // huge lengths, and none
		of := []string{"\xff\xff\xff\xff\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\xff\xff", "\x00\x00\x00\x00", "\x80\x00\x00\x00\x00\x00\x00\x00"}
		copy(b[from:], of[m.rng.IntN(len(of))])
	case 3: // something left out
		return slices.Delete(b, from, to)
	case 4: // something said again
		return slices.Insert(b, to, slices.Clone(b[from:to])...)
	case 5: // wrong order
		return slices.Concat(b[to:], b[from:to], b[:from])
	case 6, 7: // a value of a wrong type or size
		all := m.number.FindAllIndex(b, -1)
		if len(all) == 0 {
			return b[:from]
		}
		at := all[m.rng.IntN(len(all))]
		return slices.Concat(b[:at[0]], []byte(m.value()), b[at[1]:])
	case 8: // noise
		noise := make([]byte, m.rng.IntN(64))
		for i := range noise {
			noise[i] = byte(m.rng.Uint32())
		}
		return slices.Insert(b, from, noise...)
	default: // a huge line
		return slices.Insert(b, from, bytes.Repeat([]byte{" a{[\"\n0"[m.rng.IntN(7)]}, 1<<m.rng.IntN(15))...)
	}
	return b
}

// value is a value of JSON that is seldom wanted.
func (m *mutator) value() string {
	all := []string{
		"null", "true", "-1", "0", "1e999", "18446744073709551616", "-9223372036854775809", "0.5", `""`, "[]", "{}", `"\u0000"`, `"\ud800"`, "\"\xff\xfe\"",
		`[[[[[[]]]]]]`, `{"a":{"a":{"a":1}}}`, strings.Repeat("[", 20000), `"` + strings.Repeat("x", 20000) + `"`, "[1,\"a\",null]", "NaN",
	}
	return all[m.rng.IntN(len(all))]
}
