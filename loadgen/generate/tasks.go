package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Tasks describes tasks of agents. The planner's first request has the lengths and the prefix of the class. After its
// end sub-agents start. Each sub-agent makes a request, and another request after each tool call. A prompt contains
// all earlier prompts and answers of its agent. After the end of all sub-agents the planner makes a request with
// their last answers.
type Tasks struct {
	Agents string // distribution of the number of sub-agents per task; "" means no tasks
	Input  string // distribution of the tokens of a sub-agent's first prompt, with its prefix; "" means that of the class
	Output string // distribution of the output tokens of sub-agents; "" means that of the class
	Prefix string // shared prefixes of the first prompts of sub-agents; "" means none
	Calls  string // distribution of the number of consecutive tool calls of a sub-agent; "" means 1
	Tool   string // distribution of the seconds of a tool call; "" means 0
	// ToolInput is the distribution of the tokens that a tool result adds to the previous prompt and answer. "" means
	// Input.
	ToolInput string
	// Fails is the share of tool calls that fail, 0 to 0.99. A failed call is repeated with a new duration.
	Fails float64
}

// maxParts is the maximum number of sub-agents per task and of tool calls per sub-agent.
const maxParts = 10_000

// maxFails is the maximum share of failed calls. The format tasks has the same limit.
const maxFails = 0.99

// tasks is a Tasks with parsed distributions.
type tasks struct {
	agents, input, output, calls, tool, toolInput Law
	fails                                         float64
	prefix                                        *plan
	shape, lengths, tools                         *rand.Rand
}

// checkTasks returns an error for settings without an effect.
func (k *Class) checkTasks(users bool) error {
	t := &k.Tasks
	if t.Agents == "" {
		for _, l := range []struct{ name, text string }{
			{"agent input", t.Input}, {"agent output", t.Output}, {"agent prefix", t.Prefix},
			{"calls", t.Calls}, {"tool", t.Tool}, {"tool input", t.ToolInput},
		} {
			if l.text != "" {
				return fmt.Errorf("%s: requests are no tasks, requires agents", l.name)
			}
		}
		if t.Fails != 0 {
			return fmt.Errorf("fails: requests are no tasks, requires agents")
		}
		return nil
	}
	switch {
	case users:
		return fmt.Errorf("agents: tasks arrive by themselves and not from users, use another law of arrivals")
	case k.LengthsFrom != "":
		return fmt.Errorf("agents: lengths of tasks come from laws, use input and output instead of lengths from %s", k.LengthsFrom)
	case k.Turns != "" || k.Think != "" || k.TurnInput != "":
		return fmt.Errorf("agents: a task is no conversation, remove turns, think and turn input")
	case !(t.Fails >= 0 && t.Fails <= maxFails):
		return fmt.Errorf("fails is %v, must be 0 to %v", t.Fails, maxFails)
	}
	return nil
}

// newTasks parses the distributions of tasks. newTasks returns nil if the class has no tasks.
func newTasks(k *Class, stream func(name string) *rand.Rand) (*tasks, error) {
	o := &k.Tasks
	if o.Agents == "" {
		return nil, nil
	}
	t := &tasks{fails: o.Fails, shape: stream("agents"), lengths: stream("agent-lengths"), tools: stream("tools")}
	input := cmp.Or(o.Input, k.Input)
	var err error
	for _, l := range []struct {
		name, text  string
		least, most float64
		to          *Law
	}{
		{"agents", o.Agents, 0, maxParts, &t.agents}, {"calls", cmp.Or(o.Calls, "1"), 0, maxParts, &t.calls},
		{"agent input", input, 1, maxTokens, &t.input}, {"agent output", cmp.Or(o.Output, k.Output), 1, maxTokens, &t.output},
		{"tool input", cmp.Or(o.ToolInput, input), 1, maxTokens, &t.toolInput}, {"tool", cmp.Or(o.Tool, "0"), 0, math.MaxInt32, &t.tool},
	} {
		if *l.to, err = parseLaw(l.text); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		if x := l.to.fixed; x < l.least || x > l.most {
			return nil, fmt.Errorf("%s is %v, must be %v to %v", l.name, x, l.least, l.most)
		}
	}
	t.prefix, err = newPlan(o.Prefix, stream("agent-prefix"))
	if err != nil {
		err = fmt.Errorf("agent %w", err)
	}
	return t, err
}

// agent is the state of an agent. The prompts of an agent contain all its earlier prompts and answers.
type agent struct {
	of     string // name of the task
	name   string // name within the task
	prefix *plan
	ids    []uint64
	tokens int // tokens of its latest prompt and answer
}

// makeTask queues the requests of the next task.
func (g *Generator) makeTask(c *class) {
	t := c.tasks
	planner := agent{of: "t" + strconv.Itoa(g.begun-1), name: "plan", prefix: c.prefix}
	c.prefix.draw()
	input, output := c.draw(true)
	first := g.ask(&planner, input, output)
	first.At, first.HasAt = g.at, true
	g.queue = append(g.queue[:0], first)

	var ends []formats.Edge
	found := 0 // sum of the last answers' tokens
	for i := range drawParts(t.agents, t.shape) {
		sub := agent{of: planner.of, name: "a" + strconv.Itoa(i), prefix: t.prefix}
		last := g.addAgent(t, &sub, first.Name)
		ends = append(ends, formats.Edge{Name: last.Name, Relation: "join"})
		found = min(found+last.Output, maxTokens)
	}
	if len(ends) == 0 {
		return // no sub-agents, so the task is complete
	}
	_, output = c.draw(true)
	join := g.ask(&planner, found, output)
	join.Name, join.After = planner.of+".join", ends
	g.queue = append(g.queue, join)
}

// addAgent queues the requests of a sub-agent and returns the last. The first request waits for the request after.
func (g *Generator) addAgent(t *tasks, a *agent, after string) formats.Record {
	t.prefix.draw()
	edge := formats.Edge{Name: after, Relation: "spawn"}
	more := countOf(t.input.Draw(t.lengths))
	for call, calls := 0, drawParts(t.calls, t.shape); ; call++ {
		r := g.ask(a, more, countOf(t.output.Draw(t.lengths)))
		r.Name += "." + strconv.Itoa(call)
		r.After = []formats.Edge{edge}
		g.queue = append(g.queue, r)
		if call == calls {
			return r
		}
		edge = formats.Edge{Name: r.Name, Relation: "sequence", Delay: t.drawCall()}
		more = countOf(t.toolInput.Draw(t.lengths))
	}
}

// ask returns the next request of an agent. more is the number of additional prompt tokens.
func (g *Generator) ask(a *agent, more, output int) formats.Record {
	a.tokens = min(a.tokens+more, maxTokens)
	a.ids = g.extend(a.ids, a.tokens, a.prefix)
	name := a.of + "." + a.name
	r := formats.Record{
		Name: name, Agent: name, Group: []byte(a.of), Input: a.tokens, Output: output,
		IDs: append([]uint64(nil), a.ids...),
	}
	a.tokens = min(a.tokens+output, maxTokens)
	return r
}

// drawCall returns the random duration of a tool call in ms, with all failed calls before it.
func (t *tasks) drawCall() float64 {
	ms := 0.0
	for {
		ms += max(0, t.tool.Draw(t.tools)*1000)
		if t.fails == 0 || t.tools.Float64() >= t.fails {
			return ms
		}
	}
}

// drawParts returns a random number from 0 to maxParts.
func drawParts(law Law, random *rand.Rand) int {
	return int(min(max(math.Round(law.Draw(random)), 0), maxParts))
}

// takeQueued fills r with the next request of the current task.
func (g *Generator) takeQueued(r *formats.Record) {
	*r = g.queue[0]
	g.queue = g.queue[1:]
	g.made++
	r.Line = g.made
}
