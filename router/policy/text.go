package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Text is a policy defined in a file. Filters keep some of the workers, scorers give each worker a number, and a
// picker chooses one. The expressions of a Text are in the language of package formula, with the facts of listFacts.
type Text struct {
	Name string `yaml:"name" is:"name"`
	// Filters are applied in order.
	Filters []TextFilter `json:",omitempty" yaml:"filters" list:"filters, as - keep: requests < 8" each:"filter"`
	// Scorers give numbers that are added up.
	Scorers []TextScorer `json:",omitempty" yaml:"scorers" list:"scorers, as - score: -requests" each:"scorer"`
	Picker  TextPicker   `yaml:"picker" is:"picker"`
	// AnyTie draws one of the workers with the highest sum. Without AnyTie, the first of these workers is chosen: the
	// lowest id or, after a random filter, the first drawn worker.
	AnyTie bool `json:",omitempty" yaml:"ties" is:"ties"`
	// Temperature above 0 draws a worker. A higher sum has a higher probability.
	Temperature float64    `json:",omitempty" yaml:"temperature" is:"0..1e9"`
	Hold        *TextHold  `json:",omitempty" yaml:"hold" is:"hold"` // nil: no request is held
	Sent        TextMemory `json:",omitzero" yaml:"sent" what:"sent"`
	// Signals are the default ages of signals.
	Signals router.Signals `json:",omitzero" yaml:"signals" what:"signals"`
}

// TextFilter keeps some of the workers. A filter that keeps none is ignored.
type TextFilter struct {
	Keep   string `json:",omitempty" yaml:"keep" is:"filter expression"` // condition of the workers to keep
	Sample int    `json:",omitempty" yaml:"sample" is:"1.."`             // instead of Keep: number of workers to draw
}

// TextScorer gives each worker a number, multiplied by Weight.
type TextScorer struct {
	Name   string  `json:",omitempty" yaml:"name" is:"name"` // "": its expression
	Weight float64 `yaml:"weight" is:"-1e9..1e9"`
	Score  string  `json:",omitempty" yaml:"score" is:"score"` // higher is better
	Cost   string  `json:",omitempty" yaml:"cost" is:"score"`  // instead of Score: lower is better
}

// TextHold holds requests while every worker has more than Above prompt tokens to compute. Above is an expression
// that reads only pass_tokens.
type TextHold struct {
	Above string            `yaml:"above" is:"hold expression"`
	Order router.QueueOrder `yaml:"order" is:"order"`
}

// TextMemory is the limits of sent_blocks for each worker: Blocks blocks, 0 for the size of its cache, and the time
// For, 0 for no limit.
type TextMemory struct {
	Blocks int      `json:",omitempty" yaml:"blocks" is:"1.."`
	For    sim.Time `json:",omitempty" yaml:"for"`
}

// TextPicker is the selection of a worker by the sums.
type TextPicker string

const (
	TakeHighest TextPicker = "max-score"       // the highest sum
	DrawByScore TextPicker = "weighted-random" // in proportion to the sum; any worker if no sum is above 0
	DrawAny     TextPicker = "random"          // a random worker
	TakeInTurn  TextPicker = "round-robin"     // the workers in turn
)

// TextPickers returns all kinds of TextPicker.
func TextPickers() []TextPicker { return []TextPicker{TakeHighest, DrawByScore, DrawAny, TakeInTurn} }

// TextName is the name in reports of a router with a Text.
const TextName Name = "router_policy"

// text is the policy of a Text.
type text struct {
	Text
	sight
	needs   router.Needs
	filters []textProgram
	scorers *textProgram // nil: there are none
	values  []formula.Value
	draws   *draw // nil if the temperature is 0
	rand    *rand.Rand
	next    int // for TakeInTurn

	left   []sim.WorkerID // workers that the filters keep
	pool   []sim.WorkerID // workers that sample has not drawn
	totals []float64      // by index in workers
	ties   []sim.WorkerID
}

// textProgram is a program with the facts of its inputs.
type textProgram struct {
	*formula.Program
	facts []fact
	keep  formula.Value // result of a filter
}

// NewText returns the policy of a Text.
func NewText(t Text, o Options) (router.Policy, error) {
	p := &text{Text: t, rand: newRand(o), sight: makeSight(o)}
	if slices.Contains(t.LooksAt(), sentBlocks) {
		p.rememberSent(t.Sent)
	}
	for _, f := range t.Filters {
		x := textProgram{Program: p.language.NewProgram()}
		if f.Sample == 0 {
			if err := x.add(f.Keep, formula.Bool, &x.keep); err != nil {
				return nil, err
			}
		}
		p.filters = append(p.filters, x)
	}
	if len(t.Scorers) > 0 {
		p.scorers = &textProgram{Program: p.language.NewProgram()}
		p.values = make([]formula.Value, len(t.Scorers))
	}
	for i := range t.Scorers {
		if err := p.scorers.add(t.Scorers[i].expression(), formula.Number, &p.values[i]); err != nil {
			return nil, err
		}
	}
	if t.Temperature > 0 {
		p.draws = &draw{temperature: t.Temperature, rand: p.rand}
	}
	if err := p.checkClasses(t.LooksAt()); err != nil {
		return nil, err
	}
	return p, p.collectNeeds(o)
}

// expression returns the expression of a scorer.
func (s *TextScorer) expression() string { return s.Score + s.Cost }

// signedWeight returns the weight of a scorer, which is negative for a cost.
func (s *TextScorer) signedWeight() float64 {
	if s.Cost != "" {
		return -s.Weight
	}
	return s.Weight
}

// add adds an expression to a program.
func (p *textProgram) add(expression string, kind formula.Kind, to *formula.Value) error {
	v, err := p.Add(expression, kind)
	if err != nil {
		return fmt.Errorf("%s: %w", expression, err)
	}
	*to = v
	return nil
}

// collectNeeds sets the facts that the dispatcher must keep.
func (p *text) collectNeeds(o Options) error {
	for i := range p.filters {
		p.filters[i].findFacts(&p.needs, o.work())
	}
	if p.scorers != nil {
		p.scorers.findFacts(&p.needs, o.work())
	}
	if p.Hold == nil || o.work() == scheduler.Decode {
		return nil
	}
	p.needs.Running, p.needs.Tokens = true, true
	p.needs.Hold = &router.Hold{Order: p.Hold.Order}
	var err error
	if p.needs.Hold.Tokens, err = p.Hold.findLimit(o.MaxBatchedTokens); err != nil {
		return err
	}
	for _, budget := range o.WorkerBatches {
		above, err := p.Hold.findLimit(budget)
		if err != nil {
			return err
		}
		p.needs.Hold.ByWorker = append(p.needs.Hold.ByWorker, above)
	}
	return nil
}

// findFacts finds the facts that a program reads, and adds their needs.
func (p *textProgram) findFacts(n *router.Needs, role scheduler.Role) {
	all := listFacts()
	for i := range p.Inputs() {
		f := all[p.NameOf(i)]
		p.facts = append(p.facts, f)
		if f.need != nil {
			n.Running = true
			f.need(n, role)
		}
	}
}

// findLimit returns the number of prompt tokens above which a worker with the given token budget is busy.
func (h *TextHold) findLimit(budget int) (float64, error) {
	x := textProgram{Program: holdLanguage().NewProgram()}
	if err := x.add(h.Above, formula.Number, &x.keep); err != nil {
		return 0, err
	}
	if budget == 0 {
		budget = unlimitedTokens
	}
	x.Begin(1)
	for i := range x.Inputs() {
		x.Input(i)[0] = float64(budget)
	}
	x.Run()
	above := x.Column(x.keep)[0]
	if !(above >= 0) {
		return 0, fmt.Errorf("%s is %v for passes of %d tokens, must be at least 0", h.Above, above, budget)
	}
	return above, nil
}

// holdLanguage returns the language of TextHold.Above.
func holdLanguage() *formula.Language {
	return formula.NewLanguage([]formula.Name{{Name: "pass_tokens", Kind: formula.Integer}})
}

func (p *text) Needs() router.Needs { return p.needs }

func (p *text) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	p.request, p.candidates, p.workers = q, c, c.Workers
	for i := range p.filters {
		p.filter(i)
	}
	choice := p.pick()
	if p.sent != nil {
		p.sent.add(c.Now, choice.Worker, &q.Prompt, q.Prompt.Blocks)
	}
	return choice
}

// run evaluates a program for the remaining workers.
func (p *textProgram) run(s *sight) {
	p.Begin(len(s.workers))
	for i := range p.facts {
		p.facts[i].load(s, p.Input(i))
	}
	p.Run()
}

// filter applies filter i to the remaining workers.
func (p *text) filter(i int) {
	if n := p.Filters[i].Sample; n > 0 {
		p.sample(n)
		return
	}
	x := &p.filters[i]
	x.run(&p.sight)
	keep := x.Column(x.keep)
	if !x.keep.Each() {
		return // one value for all workers: all are kept
	}
	left := p.left[:0] // may share memory with p.workers: it is written behind the position that is read
	for k, w := range p.workers {
		if keep[k] != 0 {
			left = append(left, w)
		}
	}
	if len(left) > 0 {
		p.left, p.workers = left, left
	}
}

// sample keeps n random workers, in the order in which they are drawn.
func (p *text) sample(n int) {
	if len(p.workers) == 1 {
		return
	}
	p.pool = append(p.pool[:0], p.workers...)
	p.left = p.left[:0]
	for len(p.left) < n && len(p.pool) > 0 {
		k := p.rand.IntN(len(p.pool))
		p.left = append(p.left, p.pool[k])
		p.pool = slices.Delete(p.pool, k, k+1)
	}
	p.workers = p.left
}

// pick chooses one of the remaining workers.
func (p *text) pick() router.Choice {
	workers := p.workers
	switch p.Picker {
	case DrawAny:
		return router.Choice{Worker: workers[p.rand.IntN(len(workers))], Second: router.None}
	case TakeInTurn:
		i := p.next % len(workers)
		p.next = i + 1
		return router.Choice{Worker: workers[i], Second: router.None}
	}
	p.addScores()
	switch {
	case p.Picker == DrawByScore:
		return router.Choice{Worker: p.drawByScore(), Second: router.None}
	case p.draws != nil:
		return p.drawSoftly()
	case p.AnyTie:
		return router.Choice{Worker: drawHighest(workers, p.totals, &p.ties, p.rand), Second: router.None}
	}
	return p.takeHighest()
}

// addScores sets totals to the weighted sums of the scorers. NaN becomes -Inf.
func (p *text) addScores() {
	p.totals = p.totals[:0]
	for range p.workers {
		p.totals = append(p.totals, 0)
	}
	if p.scorers == nil {
		return
	}
	p.scorers.run(&p.sight)
	for i, v := range p.values {
		weight := p.Scorers[i].signedWeight()
		column := p.scorers.Column(v)
		for k := range p.totals {
			x := column[0]
			if v.Each() {
				x = column[k]
			}
			p.totals[k] += float64(weight * x)
		}
	}
	for k, x := range p.totals {
		if math.IsNaN(x) {
			p.totals[k] = math.Inf(-1)
		}
	}
}

// takeHighest chooses the first worker with the highest sum, and the next best as Second.
func (p *text) takeHighest() router.Choice {
	best, second := 0, -1
	for i := 1; i < len(p.totals); i++ {
		switch x := p.totals[i]; {
		case x > p.totals[best]:
			best, second = i, best
		case second < 0 || x > p.totals[second]:
			second = i
		}
	}
	return p.choiceOf(best, second)
}

// choiceOf returns a choice with costs, which are the negated sums.
func (p *text) choiceOf(best, second int) router.Choice {
	c := router.Choice{Worker: p.workers[best], Cost: 0 - p.totals[best], Second: router.None}
	if second >= 0 {
		c.Second, c.SecondCost = p.workers[second], 0-p.totals[second]
	}
	return c
}

// drawSoftly draws a worker with the temperature.
func (p *text) drawSoftly() router.Choice {
	p.draws.costs = p.draws.costs[:0]
	for _, x := range p.totals {
		p.draws.costs = append(p.draws.costs, 0-x)
	}
	return p.draws.chooseWorker(p.workers)
}

// drawByScore draws a worker with a probability proportional to its sum.
func (p *text) drawByScore() sim.WorkerID {
	sum := 0.0
	for i, x := range p.totals {
		p.totals[i] = max(x, 0)
		sum += p.totals[i]
	}
	if sum == 0 {
		return p.workers[p.rand.IntN(len(p.workers))]
	}
	return drawWeighted(p.workers, p.totals, sum, p.rand)
}

// String returns a description of a policy in one line.
func (t *Text) String() string { return t.Describe(t.Signals) }

// Describe returns the description of String. Describe omits the interval of metrics if signals are described
// separately.
func (t *Text) Describe(signals router.Signals) string {
	var parts []string
	for _, f := range t.Filters {
		if f.Sample > 0 {
			parts = append(parts, fmt.Sprintf("%d workers drawn", f.Sample))
		} else {
			parts = append(parts, "keep "+f.Keep)
		}
	}
	for i := range t.Scorers {
		s := &t.Scorers[i]
		name := s.Name
		if name == "" {
			name = "(" + s.expression() + ")"
		}
		parts = append(parts, fmt.Sprintf("%s %v", name, s.signedWeight()))
	}
	picker := string(t.Picker)
	switch {
	case t.Temperature > 0:
		picker += fmt.Sprintf(" at temperature %v", t.Temperature)
	case t.AnyTie:
		picker += " (any of equals)"
	}
	line := t.Name + ": " + strings.Join(append(parts, picker), ", ")
	if t.Hold != nil {
		line += fmt.Sprintf("; holds requests while all workers have more than %s to compute", t.Hold.Above)
		if t.Hold.Order != router.FCFS {
			line += fmt.Sprintf(", in the order %v", t.Hold.Order)
		}
	}
	return line + describeSight(t.LooksAt(), signals)
}

// describeSight returns a description of the interval of metrics, and of the facts that no real router knows.
func describeSight(names []string, signals router.Signals) string {
	text := ""
	if signals == (router.Signals{}) && slices.ContainsFunc(names, IsMetric) {
		text = fmt.Sprintf("; metrics are read every %v ms", router.Scrape)
	}
	if oracles := slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, oracle) }); len(oracles) > 0 {
		text += "; reads " + strings.Join(oracles, " and ") + ", which no real router knows"
	}
	return text
}
