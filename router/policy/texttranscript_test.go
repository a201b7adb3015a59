package policy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// addToText is the command of a transcript that adds a filter or a scorer.
func (s *transcript) addToText(words []string) error {
	switch words[0] {
	case "keep":
		s.text.Filters = append(s.text.Filters, TextFilter{Keep: strings.Join(words[1:], " ")})
		return nil
	case "sample":
		n, err := strconv.Atoi(words[1])
		s.text.Filters = append(s.text.Filters, TextFilter{Sample: n})
		return err
	}
	weight, err := strconv.ParseFloat(words[1], 64)
	x := TextScorer{Weight: weight}
	if expression := strings.Join(words[2:], " "); words[0] == "score" {
		x.Score = expression
	} else {
		x.Cost = expression
	}
	s.text.Scorers = append(s.text.Scorers, x)
	return err
}

// setClasses is the command of a transcript that sets the classes of requests.
func (s *transcript) setClasses(args map[string]string) error {
	s.classes = nil
	if names := args["names"]; names != "" {
		for i, name := range strings.Split(names, ",") {
			s.classes = append(s.classes, router.ClassTerms{Name: name, Weight: float64(i + 1), Deadline: sim.Time(1000 * i)})
		}
		return nil
	}
	for i, text := range strings.Split(args["weights"]+args["deadlines"], ",") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		s.classes = append(s.classes, router.ClassTerms{Weight: n})
		if args["deadlines"] != "" {
			s.classes[i] = router.ClassTerms{Deadline: sim.Time(n)}
		}
	}
	return nil
}

// newText is the command of a transcript that makes a router with a Text.
func (s *transcript) newText(args map[string]string) error {
	number := func(key string) float64 {
		x, _ := strconv.ParseFloat(args[key], 64)
		return x
	}
	t := s.text
	s.text, t.Name = Text{}, "mine"
	t.Picker = TextPicker(args["picker"])
	if t.Picker == "" {
		t.Picker = TakeHighest
	}
	t.AnyTie, t.Temperature, t.Sent = args["ties"] == "any", number("temperature"), TextMemory{Blocks: int(number("remember")), For: sim.Time(number("for"))}
	if above := args["above"]; above != "" {
		order, err := router.ParseQueueOrder(cmp.Or(args["order"], "fcfs"))
		if err != nil {
			return err
		}
		t.Hold = &TextHold{Above: above, Order: order}
	}
	tree := prompt.NewTree(transcriptBlock, transcriptBlock, prompt.Options{})
	o := Options{
		Role:        map[string]scheduler.Role{"prefill": scheduler.Prefill, "decode": scheduler.Decode}[args["role"]],
		BlockTokens: transcriptBlock, Seed: uint64(number("seed")), Tree: tree, CacheBlocks: 100, Classes: s.classes, MaxBatchedTokens: int(number("budget")),
	}
	kinds, speeds := strings.Split(args["kinds"], ","), strings.Split(args["speeds"], ",")
	for i := range int(number("workers")) {
		speed, err := strconv.ParseFloat(speeds[i%len(speeds)], 64)
		if err != nil {
			speed = 1
		}
		o.Workers = append(o.Workers, Worker{Kind: kinds[i%len(kinds)], Speed: speed})
	}
	p, err := NewText(t, o)
	if err != nil {
		return err
	}
	if len(s.rules) > 0 {
		a := Admission{Name: "rules", Rules: s.rules, Strict: args["strict"] == "true"}
		if s.admission, err = NewAdmission(a, o); err != nil {
			return err
		}
		fmt.Fprintln(&s.out, &a)
	}
	fmt.Fprintln(&s.out, &t)
	s.begin(len(o.Workers), tree, p)
	return nil
}
