package timeline

import (
	"fmt"
	"strconv"
)

// piece is a text of at most 64 bytes. It is copied with what is behind it, at
// once, which is much faster than to copy as many bytes as it has.
type piece struct {
	text [64]byte
	n    int
}

func newPiece(text string) (p piece) {
	if p.n = copy(p.text[:], text); p.n < len(text) {
		panic(fmt.Sprintf("timeline: %q has %d bytes, want at most %d", text, len(text), len(p.text)))
	}
	return p
}

// putPiece appends a piece to b, which has room for it.
func putPiece(b []byte, p *piece) []byte {
	n := len(b)
	*(*[64]byte)(b[n : n+64]) = p.text
	return b[:n+p.n]
}

// fixed are the pieces of which there is one.
type fixed struct {
	request, local, id, dur, end, quote            piece
	prefill, receive, alsoDecode, decode           piece
	times, passes                                  piece
	prompt, tokens, admitted, preempted, prefillMS piece
	placed, asked, chosen, ofPrompt, blocks        piece
	to                                             [3]piece // by stage
	overlap, cost, runnerUp, runnerUpCost          piece
	blocksShown, requestsShown                     [2]piece // of counters
}

func newFixed() fixed {
	return fixed{
		request: newPiece(`,` + "\n" + `{"tid":1,"cat":"request","pid":2,"ts":`),
		local:   newPiece(`,"id2":{"local":"`), id: newPiece(`,"id":`),
		dur: newPiece(`,"dur":`), end: newPiece(`}}`), quote: newPiece(`"}`),

		prefill: newPiece(`,"name":"prefill `), receive: newPiece(`,"name":"receive `), alsoDecode: newPiece(`, decode `), decode: newPiece(`,"name":"decode `),
		times: newPiece(` x`), passes: newPiece(`","args":{"passes":`),
		prompt: newPiece(`,"prompt_tokens":`), tokens: newPiece(`,"tokens":`), admitted: newPiece(`,"admitted":`),
		preempted: newPiece(`,"preempted":`), prefillMS: newPiece(`,"prefill_ms":`),

		placed: newPiece(`,"name":"request `), asked: newPiece(`","args":{"request":`), chosen: newPiece(`,"worker":`),
		ofPrompt: newPiece(`,"prompt_tokens":`), blocks: newPiece(`,"prompt_blocks":`), overlap: newPiece(`,"overlap_blocks":`),
		cost: newPiece(`,"cost_blocks":`), runnerUp: newPiece(`,"runner_up":`), runnerUpCost: newPiece(`,"runner_up_cost_blocks":`),

		to: [3]piece{newPiece(" to " + workerName(0)), newPiece(" to " + workerName(1)), newPiece(" to " + workerName(2))},

		blocksShown:   [2]piece{newPiece(`,"args":{"held":`), newPiece(`,"cached":`)},
		requestsShown: [2]piece{newPiece(`,"args":{"running":`), newPiece(`,"waiting":`)},
	}
}

// moment is what happens to a part of a lane.
type moment uint8

const (
	begins moment = iota
	ends
	happens
)

// part is a part of a request's lane, or an instant on it.
type part uint8

const (
	whole part = iota // from arrival to last token
	wait
	prefill
	decode
	waitForDecode
	transfer
	losesPlace
)

func laneEnd(m moment, p part) piece {
	name := [...]string{"request ", "wait", "prefill", "decode", "wait for decode", "KV transfer", "loses its place"}[p]
	text := `"},"ph":"` + "ben"[m:m+1] + `","name":"` + name
	if p != whole { // which is followed by a number
		text += `"}`
	}
	return newPiece(text)
}

// arrow is a kind of arrow between slices.
type arrow uint8

const (
	arrowRequest arrow = iota
	arrowHandoff
)

// end is an end of an arrow, or a step of it.
type end uint8

const (
	starts end = iota
	steps
	finishes
)

func arrowEnd(a arrow, m end) piece {
	name := [...]string{"request", "handoff"}[a]
	return newPiece(`,"ph":"` + "stf"[m:m+1] + `","cat":"` + name + `","name":"` + name + `"}`)
}

// appendInteger appends a number to b, which has room for it.
func appendInteger(b []byte, n int) []byte {
	if n >= 0 {
		return appendDigits(b, uint64(n))
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// appendDigits appends a number to b, which has room for it.
func appendDigits(b []byte, n uint64) []byte {
	if n < 10 {
		return append(b, byte('0'+n))
	}
	at := len(b) + countDecimals(n)
	b = b[:at]
	for n >= 100 {
		q := n / 100
		pair := (n - q*100) * 2
		n = q
		at -= 2
		copy(b[at:at+2], pairs[pair:pair+2])
	}
	if n < 10 {
		b[at-1] = byte('0' + n)
		return b
	}
	copy(b[at-2:at], pairs[n*2:n*2+2])
	return b
}

// countDecimals is how many digits n has.
func countDecimals(n uint64) int {
	for d := 1; ; d += 4 {
		switch {
		case n < 10:
			return d
		case n < 100:
			return d + 1
		case n < 1000:
			return d + 2
		case n < 10000:
			return d + 3
		}
		n /= 10000
	}
}

// pairs are the numbers from 00 to 99.
const pairs = "00010203040506070809" + "10111213141516171819" + "20212223242526272829" + "30313233343536373839" + "40414243444546474849" +
	"50515253545556575859" + "60616263646566676869" + "70717273747576777879" + "80818283848586878889" + "90919293949596979899"

// appendFloat appends a number as strconv does in its shortest form ('g').
func appendFloat(b []byte, v float64) []byte {
	if whole := uint64(v); v >= 0 && v < 1<<53 && float64(whole) == v {
		return appendDigits(b, whole)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// appendInstant appends ns as microseconds with three digits.
func appendInstant(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	us := uint64(ns) / 1000
	rest := uint64(ns) - us*1000
	b = appendDigits(b, us)
	first := rest / 100
	pair := (rest - first*100) * 2
	return append(b, '.', byte('0'+first), pairs[pair], pairs[pair+1])
}
