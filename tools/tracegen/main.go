// Command tracegen writes the traces of testdata/traces that are made up:
//
//	tracegen DIR
//
// The same version of it always writes the same bytes.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/sim"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tracegen DIR")
		os.Exit(2)
	}
	for _, f := range makeTraces() {
		if err := os.WriteFile(filepath.Join(os.Args[1], f.name), f.text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

type file struct {
	name string
	text []byte
}

func makeTraces() []file {
	return []file{
		{"chat-hour.jsonl", formatRows(newChat().makeHour())},
		{"preemption.jsonl", formatRows(makePreemption())},
	}
}

// blockTokens is the number of tokens of a hash id.
const blockTokens = 512

// row is a line of a trace.
type row struct {
	at            int // ms
	input, output int // tokens
	ids           []int
}

// formatRows sorts rows by time and writes them as lines.
func formatRows(rows []row) []byte {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	var b bytes.Buffer
	for _, r := range rows {
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[`, r.at, r.input, r.output)
		for i, id := range r.ids {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, id)
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

// makePreemption is a crowd whose short prompts fit a small cache and whose long
// answers do not: 160 requests within two seconds. With 256 blocks of 64
// tokens a worker must preempt.
func makePreemption() []row {
	random := sim.NewRand(7, "tracegen/preemption")
	rows := make([]row, 160)
	for i := range rows {
		input := 100 + random.IntN(800)
		r := row{at: random.IntN(2000), input: input, output: 200 + random.IntN(600)}
		for b := range countBlocks(input) {
			r.ids = append(r.ids, 10*i+b)
		}
		if i%4 > 0 && len(r.ids) > 1 {
			r.ids[0] = 100000 + i%4 // three prefixes that many share
		}
		rows[i] = r
	}
	return rows
}

func countBlocks(tokens int) int { return (tokens + blockTokens - 1) / blockTokens }

// chat makes up an hour of a chat service.
type chat struct {
	random  *rand.Rand
	systems [][]int // ids of the system prompts, the popular ones first
	next    int     // the next fresh id
	rows    []row
}

const (
	hour          = 3600_000 // ms
	conversations = 800
	longest       = 40_000 // tokens of a prompt, at which a conversation ends
)

func newChat() *chat {
	c := &chat{random: sim.NewRand(11, "tracegen/chat")}
	for i := range 14 {
		c.systems = append(c.systems, c.freshIDs(1+(i*5)%7))
	}
	return c
}

// freshIDs returns n ids that nobody has.
func (c *chat) freshIDs(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = c.next
		c.next++
	}
	return ids
}

// makeHour starts conversations at a rate that swells and falls, some before the
// hour, and keeps the turns within it.
func (c *chat) makeHour() []row {
	for range conversations {
		c.addConversation(c.drawStart())
	}
	return c.rows
}

// drawStart draws an instant: two slow waves, and five rushes of two minutes.
func (c *chat) drawStart() float64 {
	for {
		at := c.random.Float64()*1.1 - 0.1 // of the hour
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

// addConversation adds turns, each of which repeats all that was said before. The
// last block of a prompt is seldom full, so the next turn has another there.
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
			c.rows = append(c.rows, row{at: int(at), input: said, output: answer, ids: ids})
		}
		if c.random.Float64() < 0.2 || said > longest {
			return
		}
		said += answer + c.drawLength(120, 1.4)
		at += float64(answer)*12 + float64(c.drawLength(25_000, 0.9)) // reading and thinking
	}
}

// drawPopular draws a place below n, the first ones most often (Zipf).
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

// drawLength draws a length around median, log-normal, at least 8 and at most 30
// times the median.
func (c *chat) drawLength(median, spread float64) int {
	x := median * math.Exp(float64(spread*c.random.NormFloat64()))
	return int(math.Round(min(max(x, 8), 30*median)))
}
