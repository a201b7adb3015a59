// Command tracegen writes the synthetic traces of testdata/traces:
//
//	tracegen DIR
//
// The same version always writes the same bytes.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/write"
	"github.com/replay-llm/replay/sim"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tracegen DIR")
		os.Exit(2)
	}
	for name, text := range makeTraces() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func makeTraces() map[string][]byte {
	return map[string][]byte{"chat-hour.jsonl": formatRows(newChat().makeHour()), "preemption.jsonl": formatRows(makePreemption())}
}

// blockTokens is the number of tokens of a hash id.
const blockTokens = 512

// formatRows sorts rows by time and formats them as lines.
func formatRows(rows []formats.Record) []byte {
	slices.SortStableFunc(rows, func(a, b formats.Record) int { return cmp.Compare(a.At, b.At) })
	var b bytes.Buffer
	w, err := write.NewWriter(&b, formats.Mooncake, blockTokens)
	for i := range rows {
		err = errors.Join(err, w.Write(&rows[i]))
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		panic(err) // writes to memory always succeed
	}
	return b.Bytes()
}

// newRow returns a request at a whole number of ms.
func newRow(at, input, output int, ids []uint64) formats.Record {
	return formats.Record{At: float64(at), HasAt: true, Input: input, Output: output, IDs: ids}
}

// makePreemption generates 160 requests within two seconds. The short prompts of the requests fit in a small cache,
// and the long answers do not. With 256 blocks of 64 tokens, a worker must preempt.
func makePreemption() []formats.Record {
	random := sim.NewRand(7, "tracegen/preemption")
	rows := make([]formats.Record, 160)
	for i := range rows {
		input := 100 + random.IntN(800)
		r := newRow(random.IntN(2000), input, 200+random.IntN(600), nil)
		for b := range (input + blockTokens - 1) / blockTokens {
			r.IDs = append(r.IDs, uint64(10*i+b))
		}
		if i%4 > 0 && len(r.IDs) > 1 {
			r.IDs[0] = uint64(100000 + i%4) // three shared prefixes
		}
		rows[i] = r
	}
	return rows
}

// chat generates an hour of a chat service.
type chat struct {
	random  *rand.Rand
	systems [][]uint64 // ids of the system prompts, the most popular first
	next    uint64     // next unused id
	rows    []formats.Record
}

const (
	hour          = 3600_000 // length of an hour in ms
	conversations = 800
	longest       = 40_000 // prompt tokens at which a conversation ends
)

func newChat() *chat {
	c := &chat{random: sim.NewRand(11, "tracegen/chat")}
	for i := range 14 {
		c.systems = append(c.systems, c.freshIDs(1+(i*5)%7))
	}
	return c
}

// freshIDs returns n unused ids.
func (c *chat) freshIDs(n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = c.next
		c.next++
	}
	return ids
}

// makeHour generates conversations at a varying rate. Some conversations start before the hour. Only the turns within
// the hour are kept.
func (c *chat) makeHour() []formats.Record {
	for range conversations {
		c.addConversation(c.drawStart())
	}
	return c.rows
}

// drawStart draws a start time from a rate with two slow waves and five peaks of two minutes.
func (c *chat) drawStart() float64 {
	for {
		at := c.random.Float64()*1.1 - 0.1 // time as a share of the hour
		rate := 1 + 0.5*math.Sin(2*math.Pi*at) + 0.25*math.Sin(2*math.Pi*5*at)
		for _, rush := range []float64{0.12, 0.31, 0.52, 0.56, 0.83} {
			if at >= rush && at < rush+1.0/30 {
				rate += 2
			}
		}
		if c.random.Float64()*4 < rate {
			return at * hour
		}
	}
}

// addConversation adds the turns of a conversation. Each prompt repeats all previous prompts and answers. A partial
// last block gets a new id in the next turn.
func (c *chat) addConversation(at float64) {
	system := c.systems[c.drawPopular(len(c.systems))]
	full := slices.Clone(system)
	said := len(system)*blockTokens + c.drawLength(300, 1.3)
	for {
		for len(full) < said/blockTokens {
			full = append(full, c.freshIDs(1)...)
		}
		ids := slices.Clone(full)
		if said%blockTokens > 0 {
			ids = append(ids, c.freshIDs(1)...)
		}
		answer := c.drawLength(320, 0.8)
		if at >= 0 && at < hour {
			c.rows = append(c.rows, newRow(int(at), said, answer, ids))
		}
		if c.random.Float64() < 0.2 || said > longest {
			return
		}
		said += answer + c.drawLength(120, 1.4)
		at += float64(answer)*12 + float64(c.drawLength(25_000, 0.9)) // time to read and think
	}
}

// drawPopular draws an index below n. Low indices are the most frequent (Zipf).
func (c *chat) drawPopular(n int) int {
	total := 0.0
	for i := range n {
		total += 1 / float64(i+1)
	}
	x := c.random.Float64() * total
	for i := range n {
		if x -= 1 / float64(i+1); x < 0 {
			return i
		}
	}
	return n - 1
}

// drawLength draws a log-normal length with the given median. The length is at least 8 and at most 30 times the
// median.
func (c *chat) drawLength(median, spread float64) int {
	x := median * math.Exp(float64(spread*c.random.NormFloat64()))
	return int(math.Round(min(max(x, 8), 30*median)))
}
