package formats

import (
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// assumption generates shared prefixes for files without information about prefixes.
type assumption struct {
	system  int // number of tokens at the begin of all prompts
	groups  int // number of groups of requests with a common prefix; 0: none
	ratio   float64
	session bool // the prompt of a turn begins with the prompt of the previous turn

	block  int
	random *rand.Rand
	unique uint64
	turns  map[string][]uint64 // block ids of the last turn, by conversation
}

// parseAssumption parses the option AssumePrefix. parseAssumption returns nil for the text "none".
func parseAssumption(text string) (*assumption, error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	a := &assumption{}
	for part := range strings.SplitSeq(text, ",") {
		kind, rest, _ := strings.Cut(part, ":")
		var err error
		switch kind {
		case "system":
			a.system, err = strconv.Atoi(rest)
			if err == nil && (a.system < 1 || a.system > scan.MaxTokens) {
				err = strconv.ErrRange
			}
		case "groups":
			n, ratio, _ := strings.Cut(rest, ":")
			if a.groups, err = strconv.Atoi(n); err == nil {
				a.ratio, err = strconv.ParseFloat(ratio, 64)
			}
			if err == nil && (a.groups < 1 || !(a.ratio >= 0 && a.ratio <= 1)) {
				err = strconv.ErrRange
			}
		case "session":
			a.session = true
		default:
			err = strconv.ErrSyntax
		}
		if err != nil || a.groups > 0 && (a.system > 0 || a.session) {
			return nil, excerpt.Errorf("assumed prefix is %q, must be none, system:TOKENS, groups:N:RATIO, session, or system:TOKENS,session", text)
		}
	}
	return a, nil
}

func (a *assumption) begin(s *Stream) {
	a.block, a.random = s.Block, sim.NewRand(s.Options.Seed, "formats/prefix")
	a.turns = make(map[string][]uint64)
	s.Private = false
}

// Bits of generated ids. Different high bits separate unique blocks from blocks of groups.
const (
	uniqueIDs = 1 << 62
	groupBits = 32
)

// fillIDs generates the block ids of r.
func (a *assumption) fillIDs(r *Record) {
	r.Private = false
	full := r.Input / a.block
	r.IDs = r.IDs[:0]
	if a.session && r.Group != nil {
		// The tokens of an answer are not known, so its blocks are new.
		last := a.turns[string(r.Group)]
		r.IDs = append(r.IDs, last[:min(len(last), full)]...)
	}
	group, shared := uint64(0), min(a.system/a.block, full)
	if a.groups > 0 {
		group = 1 + a.random.Uint64N(uint64(a.groups))
		shared = int(a.ratio * float64(full))
	}
	for b := len(r.IDs); b < full; b++ {
		if b < shared {
			r.IDs = append(r.IDs, group<<groupBits|uint64(b))
			continue
		}
		a.unique++
		r.IDs = append(r.IDs, uniqueIDs|a.unique)
	}
	r.Full = r.Input%a.block > 0
	if a.session && r.Group != nil {
		a.turns[string(r.Group)] = append([]uint64(nil), r.IDs...)
	}
}

// jitter spreads the requests of each second evenly over the second, in their order. jitter is for files with times
// in whole seconds. jitter keeps the requests of one second in memory. Delays after other requests do not change.
type jitter struct {
	rows  Reader
	held  Gathered
	ahead *Record // the first request of the next second
	end   error   // the error after the last row
}

func (j *jitter) Next(r *Record) error {
	err := j.held.Next(r)
	if err == io.EOF {
		j.holdSecond()
		err = j.held.Next(r)
	}
	if err == io.EOF {
		return j.end
	}
	return err
}

// holdSecond reads the requests of the next second.
func (j *jitter) holdSecond() {
	held := j.held.All[:0]
	if j.ahead != nil {
		held, j.ahead = append(held, *j.ahead), nil
	}
	for j.end == nil && j.ahead == nil {
		var r Record
		var row *loadgen.SyntaxError
		switch err := j.rows.Next(&r); {
		case errors.As(err, &row):
			j.held.Bad = append(j.held.Bad, err)
		case err != nil:
			j.end = err
		default:
			if r = r.Clone(); len(held) > 0 && r.When != held[0].When {
				j.ahead = &r
				break
			}
			held = append(held, r)
		}
	}
	for i := range held {
		held[i].When = held[i].When.Plus(scan.ExactStamp(int64(i) * 1e9 / int64(len(held))))
	}
	j.held.All, j.held.at = held, 0
}
