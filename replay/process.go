package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/replay-llm/replay/internal/peer"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// ProcessTimeout is the default timeout of an answer of a program.
const ProcessTimeout = 10 * time.Second

// processes is the programs of a run.
type processes struct {
	ctx     context.Context
	running []*peer.Peer
	facts   []string // facts that router policies read
}

// start starts a program.
func (p *processes) start(name, command string, timeout time.Duration) (*peer.Peer, error) {
	if timeout == 0 {
		timeout = ProcessTimeout
	}
	one, err := peer.Start(p.ctx, peer.Options{Name: name, Command: command, Timeout: timeout, Stderr: os.Stderr})
	if err == nil {
		p.running = append(p.running, one)
	}
	return one, err
}

// choiceOf returns a policy that starts a program each time it is made.
func (p *processes) choiceOf(x *policy.Process) *policy.Given {
	return &policy.Given{Name: policy.ProcessName, Make: func(o policy.Options) (router.Policy, error) {
		one, err := p.start("policy process", x.Command, x.Timeout)
		if err != nil {
			return nil, err
		}
		made, err := policy.NewProcess(one, o)
		if err == nil {
			p.addFacts(made)
		}
		return made, err
	}}
}

// addFacts records the facts that a policy reads.
func (p *processes) addFacts(made router.Policy) {
	for _, name := range made.(interface{ LooksAt() []string }).LooksAt() {
		if !slices.Contains(p.facts, name) {
			p.facts = append(p.facts, name)
		}
	}
}

// scalersOf returns the scaler of each pool that replaces Autoscale.Kind. The result is the caller's scaler or a
// program of the pool; nil: none.
func (p *processes) scalersOf(s *Spec, given autoscale.Scaler) (all [2]autoscale.Scaler, err error) {
	for i := range s.Pools {
		a := s.AutoscalerOf(i)
		if all[i] = given; given != nil || a == nil || a.Kind != autoscale.ByProgram {
			continue
		}
		name := "scaler process"
		if s.Disaggregated() {
			name += " of " + s.Pools[i].Role.String() + " workers"
		}
		workers, err := s.Pools[i].Seen()
		if err != nil {
			return all, err
		}
		one, err := p.start(name, a.Program.Command, a.Program.Timeout)
		if err != nil {
			return all, err
		}
		if all[i], err = autoscale.NewProcess(one, a, workers, s.Seed); err != nil {
			return all, err
		}
	}
	return all, nil
}

// refuseScalers rejects autoscalers in programs.
func (s *Spec) refuseScalers(where string) error {
	for i := range s.Pools {
		if a := s.AutoscalerOf(i); a != nil && a.Kind == autoscale.ByProgram {
			return fmt.Errorf("an autoscaler in a program in %s: the memory of the program cannot be copied, use a scaler of another kind", where)
		}
	}
	return nil
}

// end ends the programs. After a run without an error, end closes the programs. After an error, end kills the
// programs.
func (p *processes) end(ran error) error {
	for _, one := range p.running {
		if ran != nil {
			one.Kill()
		} else {
			ran = one.Close()
		}
	}
	return ran
}

// checkProcess rejects settings that are not supported with a router policy in a program.
func (s *Spec) checkProcess() error {
	p, ok := s.Router.(*policy.Process)
	switch {
	case !ok:
		return nil
	case p.Command == "":
		return errors.New("a policy process requires a command")
	case slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Routing != nil }):
		return errors.New("a change of the router and a policy process are mutually exclusive")
	}
	return nil
}
