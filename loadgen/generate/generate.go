// Package generate generates workloads. Arrivals follow a random process or users with think times. Lengths follow a
// distribution or a trace. A workload can mix classes of requests, conversations, tasks of agents, and prompts with
// shared prefixes. The same configuration always generates the same requests.
//
// Read generate.go, then law.go, arrivals.go, prefix.go and tasks.go. File params.go parses the texts of
// distributions.
package generate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/sim"
)

// Config describes a workload. Distributions are texts such as lognormal:mean=1000,sigma=0.8. See parseLaw,
// newProcess and newPlan.
type Config struct {
	// Arrivals is the arrival process of requests or conversations.
	Arrivals string
	// Rate is the number of arrivals per second. Rate is not used for arrivals by users.
	Rate float64
	// Duration is the time after which arrivals end, in ms. If Duration is 0, Requests ends the workload.
	Duration sim.Time
	// Requests is the total number of requests. If Requests is 0, Duration ends the workload. A conversation that
	// exceeds the total is cut, and a task is completed.
	Requests int
	// Classes has at least one class of requests.
	Classes []Class
	// Block is the number of tokens of a hash id, > 0.
	Block int
	Seed  uint64
}

// Class is a class of requests with the same distributions.
type Class struct {
	Name   string
	Weight float64 // relative share of arrivals, > 0
	Input  string  // distribution of prompt tokens, with the shared prefix
	Output string  // distribution of output tokens
	// LengthsFrom is a trace. Pairs of prompt and output lengths are drawn from it, and Input and Output are not
	// used.
	LengthsFrom string
	Prefix      string // shared prefixes of prompts; "" means none
	Turns       string // distribution of the number of requests per conversation; "" means 1
	Think       string // distribution of the seconds between an answer and the next turn; "" means 0
	// TurnInput is the distribution of the tokens that a later turn adds to the previous prompt and answer. "" means
	// Input.
	TurnInput string
	Tasks     Tasks // zero value: no tasks
}

// Generator generates the requests one by one.
type Generator struct {
	config   Config
	arrivals *process
	classes  []*class
	weights  []float64 // cumulative
	pick     *rand.Rand

	made  int    // number of requests
	begun int    // number of conversations
	next  uint64 // next unused block id
	turns int    // remaining turns of the current conversation
	of    *class // class of the current conversation
	at    float64
	name  []byte
	ids   []uint64         // ids of the latest prompt
	input int              // tokens of the latest prompt and answer
	queue []formats.Record // remaining requests of the current task
}

// class is a Class with parsed distributions.
type class struct {
	input, output, turns, think, more Law
	pairs                             *pairs
	prefix                            *plan
	lengths, talk                     *rand.Rand
	tasks                             *tasks // nil if requests are not tasks
}

// New returns a Generator for a configuration.
func New(c Config) (*Generator, error) {
	switch {
	case c.Block < 1:
		return nil, fmt.Errorf("block is %d tokens, must be at least 1", c.Block)
	case len(c.Classes) == 0:
		return nil, fmt.Errorf("no class of requests, must be at least one")
	case c.Requests < 0 || c.Requests > math.MaxInt32:
		return nil, fmt.Errorf("requests are %d, must be 0 to %d", c.Requests, math.MaxInt32)
	case !(c.Duration >= 0) || math.IsInf(float64(c.Duration), 0):
		return nil, fmt.Errorf("duration is %v ms, must be finite and >= 0", float64(c.Duration))
	}
	g := &Generator{config: c, pick: sim.NewRand(c.Seed, "generate/class")}
	sum := 0.0
	for i, k := range c.Classes {
		read, err := newClass(k, i, c)
		if err != nil {
			return nil, k.about(err)
		}
		if !(k.Weight > 0) || math.IsInf(k.Weight, 0) {
			return nil, k.about(fmt.Errorf("weight is %v, must be a finite number > 0", k.Weight))
		}
		sum += k.Weight
		g.classes, g.weights = append(g.classes, read), append(g.weights, sum)
	}
	var err error
	g.arrivals, err = newProcess(c)
	return g, err
}

// about adds the name of the class to err, if it has a name.
func (k *Class) about(err error) error {
	if k.Name == "" {
		return err
	}
	return fmt.Errorf("class %s: %w", k.Name, err)
}

// check returns an error for settings without an effect.
func (k *Class) check(users bool) error {
	one := k.Turns == "" && !users
	switch {
	case k.LengthsFrom != "" && (k.Input != "" || k.Output != ""):
		return fmt.Errorf("lengths come from %s, remove the laws of input and output", k.LengthsFrom)
	case one && k.Think != "":
		return fmt.Errorf("think: conversations have one request, use turns or users")
	case one && k.TurnInput != "":
		return fmt.Errorf("turn input: conversations have one request, use turns or users")
	}
	return nil
}

func newClass(k Class, place int, c Config) (*class, error) {
	stream := func(name string) *rand.Rand {
		return sim.NewRand(c.Seed, "generate/"+strconv.Itoa(place)+"/"+name)
	}
	r := &class{lengths: stream("lengths"), talk: stream("conversations")}
	var err error
	users := parseParams(c.Arrivals).name == "users"
	if err := cmp.Or(k.checkTasks(users), k.check(users)); err != nil {
		return nil, err
	}
	if k.LengthsFrom != "" {
		if r.pairs, err = readPairs(k.LengthsFrom); err != nil {
			return nil, err
		}
	}
	for _, l := range []struct {
		name, text, none string
		to               *Law
	}{
		{"input", k.Input, "", &r.input}, {"output", k.Output, "", &r.output},
		{"turns", k.Turns, "1", &r.turns}, {"think", k.Think, "0", &r.think}, {"turn input", k.TurnInput, k.Input, &r.more},
	} {
		text := l.text
		if text == "" {
			text = l.none
		}
		if text == "" && r.pairs != nil {
			continue
		}
		if text == "" {
			return nil, fmt.Errorf("%s is missing, must be a number of tokens or a law, such as 1000 or lognormal:mean=1000,sigma=0.8", l.name)
		}
		if *l.to, err = parseLaw(text); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		if x := l.to.fixed; !math.IsNaN(x) && l.name != "think" && !(x >= 1 && x <= maxTokens) {
			return nil, fmt.Errorf("%s is %v, must be 1 to %d", l.name, x, maxTokens)
		}
	}
	if r.prefix, err = newPlan(k.Prefix, stream("prefix")); err == nil {
		r.tasks, err = newTasks(&k, stream)
	}
	return r, err
}

// Next fills r with the next request. Next returns io.EOF after the last request. The requests of a conversation or
// task are consecutive.
func (g *Generator) Next(r *formats.Record) error {
	if len(g.queue) > 0 {
		g.takeQueued(r)
		return nil
	}
	first := g.turns == 0
	if first && !g.begin() {
		return io.EOF
	}
	if first && !(g.at <= sim.MaxTime) {
		return fmt.Errorf("request %d arrives at %v ms, must be at most %.0f ms", g.made+1, g.at, sim.MaxTime)
	}
	c := g.of
	if c.tasks != nil {
		g.turns = 0
		g.makeTask(c)
		g.takeQueued(r)
		return nil
	}
	*r = formats.Record{IDs: r.IDs[:0], Line: g.made + 1}
	input, output := c.draw(first)
	if first {
		r.At, r.HasAt = g.at, true
		g.input = 0
		c.prefix.draw()
	} else {
		r.Delay, r.HasDelay = max(0, c.think.Draw(c.talk)*1000), true
		if !(r.Delay <= sim.MaxTime) {
			return fmt.Errorf("request %d comes %v ms after the turn before, must be at most %.0f ms", g.made+1, r.Delay, sim.MaxTime)
		}
	}
	g.input = min(g.input+input, maxTokens)
	r.Input, r.Output = g.input, output
	g.ids = g.extend(g.ids, g.input, c.prefix)
	r.IDs = append(r.IDs, g.ids...)
	if g.name != nil {
		r.Session, r.Group = g.name, g.name
	}
	g.input = min(g.input+output, maxTokens)
	g.made++
	g.turns--
	return nil
}

const maxTokens = math.MaxInt32

// draw returns random lengths of a request.
func (c *class) draw(first bool) (input, output int) {
	if c.pairs != nil {
		input, output = c.pairs.draw(c.lengths)
	} else {
		input, output = countOf(c.input.Draw(c.lengths)), countOf(c.output.Draw(c.lengths))
	}
	if !first && c.more.Draw != nil {
		input = countOf(c.more.Draw(c.lengths))
	}
	return input, output
}

// countOf rounds x to a number of tokens, at least 1.
func countOf(x float64) int { return int(min(max(math.Round(x), 1), maxTokens)) }

// begin starts the next conversation. begin returns false if there is no further conversation.
func (g *Generator) begin() bool {
	if g.config.Requests > 0 && g.made >= g.config.Requests {
		return false
	}
	at, ok := g.arrivals.next()
	if !ok {
		return false
	}
	u := g.pick.Float64() * g.weights[len(g.weights)-1]
	i := 0
	for i < len(g.weights)-1 && u >= g.weights[i] {
		i++
	}
	c := g.classes[i]
	g.of, g.at = c, at
	g.turns = g.arrivals.turns(g.begun, countOf(c.turns.Draw(c.talk)), g.config.Requests)
	if g.config.Requests > 0 && g.arrivals.users == 0 {
		g.turns = min(g.turns, g.config.Requests-g.made)
	}
	g.name = nil
	if g.turns > 1 {
		g.name = strconv.AppendInt([]byte{'s'}, int64(g.begun), 10)
	}
	g.ids = g.ids[:0]
	g.begun++
	return true
}

// extend appends ids until each block of the prompt has an id. tokens is the length of the prompt.
func (g *Generator) extend(ids []uint64, tokens int, prefix *plan) []uint64 {
	blocks := (tokens + g.config.Block - 1) / g.config.Block
	for b := len(ids); b < blocks; b++ {
		id, shared := prefix.id(b, g.config.Block, &g.next)
		if !shared {
			id = g.next
			g.next++
		}
		ids = append(ids, id)
	}
	return ids
}
