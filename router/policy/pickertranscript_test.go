package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// newPicker is the command of a transcript that makes a router with a Picker.
func (s *transcript) newPicker(args map[string]string) error {
	number := func(key string) float64 {
		x, _ := strconv.ParseFloat(args[key], 64)
		return x
	}
	p := Picker{Draw: Draw(args["draw"])}
	prefix := Prefix{Speculative: sim.Time(number("speculative")), Capacity: int(number("capacity")), LongestBlocks: int(number("longest"))}
	if kind, ok := args["discount"]; ok {
		p.InFlight = &InFlight{Match: ScorerKind(kind), Prefix: prefix}
	}
	for kind := range strings.FieldsFuncSeq(args["filters"], func(r rune) bool { return r == ',' }) {
		f := Filter{
			Kind: FilterKind(kind), Sticky: number("sticky"), Explore: number("explore"), Behind: int64(number("behind")), Slower: sim.Time(number("slower")),
			Throughput: number("throughput"), Requests: number("requests"), Tokens: number("tokens"), Queue: number("waiting"), KV: number("usage"),
		}
		if f.Kind == PrefixAffinity {
			f.Match, f.Prefix = ScorerKind(args["match"]), prefix
		}
		p.Filters = append(p.Filters, f)
	}
	for part := range strings.SplitSeq(args["scorers"], ",") {
		kind, weight, ok := strings.Cut(part, ":")
		w, err := strconv.ParseFloat(weight, 64)
		if !ok || err != nil {
			return fmt.Errorf("scorer %q, want KIND:WEIGHT", part)
		}
		s := Scorer{
			Kind: ScorerKind(kind), Weight: w, Relative: args["relative"] == "true",
			Prefix: prefix, Full: int(number("full")), Idle: int(number("idle")), Busy: number("busy"),
		}
		if s.Kind == NoHitLRU {
			s.Match = ScorerKind(args["match"])
		}
		p.Scorers = append(p.Scorers, s)
	}
	if args["gate"] == "true" {
		p.Gate = &router.Gate{Queue: 5, KV: 0.8, Each: 1}
	}
	tree := prompt.NewTree(transcriptBlock, transcriptBlock, prompt.Options{})
	s.begin(int(number("workers")), tree, NewPicker(p, Options{
		BlockTokens: transcriptBlock, Seed: uint64(number("seed")), Tree: tree, CacheBlocks: 100,
	}))
	return nil
}

// report is the command of a transcript that reports the metrics of a worker.
func (s *transcript) report(w sim.WorkerID, args map[string]string) error {
	running, _ := strconv.Atoi(args["running"])
	waiting, _ := strconv.Atoi(args["waiting"])
	kv, _ := strconv.ParseFloat(args["kv"], 64)
	return s.print(s.d.Measure(s.now, w, router.Metrics{Running: int32(running), Waiting: int32(waiting), KV: kv}, nil))
}

// ageSignals is the command of a transcript that sets the ages of signals.
func (s *transcript) ageSignals(args map[string]string) error {
	s.signals = router.Signals{}
	for name, text := range args {
		delay, interval, _ := strings.Cut(text, "/")
		d, err := strconv.ParseFloat(delay, 64)
		if err != nil {
			return err
		}
		i, err := strconv.ParseFloat(interval, 64)
		if err != nil {
			return err
		}
		s.signals.Set(router.Signal(name), router.Age{Delay: sim.Time(d), Interval: sim.Time(i)})
	}
	return nil
}
