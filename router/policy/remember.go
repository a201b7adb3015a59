package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim/prompt"
)

var _ = [...]router.Rememberer{(*text)(nil), (*picker)(nil), (*process)(nil), (*holdingProcess)(nil), (*cacheAware)(nil)}

// Nodes calls need with the nodes of sent prompts. s may be nil.
func (s *sent) Nodes(need func(prompt.NodeID)) {
	if s == nil {
		return
	}
	for w := range s.workers {
		for n := range s.workers[w].at {
			need(n)
		}
	}
}

// Nodes calls need with the nodes of sent prompts, and with the first nodes of prefix groups.
func (s *sight) Nodes(need func(prompt.NodeID)) {
	s.sent.Nodes(need)
	for first := range s.groups {
		if first >= 0 {
			need(prompt.NodeID(first))
		}
	}
}

// Nodes calls need with the nodes of sent prompts.
func (k *known) Nodes(need func(prompt.NodeID)) {
	for _, m := range k.matches {
		m.sent.Nodes(need)
	}
}

// Nodes calls need with the remembered nodes of the program.
func (p *holdingProcess) Nodes(need func(prompt.NodeID)) { p.process.Nodes(need) }

// Nodes calls need with the nodes of the tree of prompts.
func (p *cacheAware) Nodes(need func(prompt.NodeID)) {
	for i := range p.sent.nodes {
		for _, r := range p.sent.nodes[i].text {
			if r.name >= 0 {
				need(prompt.NodeID(r.name))
			}
		}
	}
}
