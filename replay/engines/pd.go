package engines

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// PD is the division of work between prefill and decode workers (docs/pd.md).
type PD struct {
	// Threshold, When and Best select the prompts for prefill workers; at most one of them may be set. All other
	// prompts are computed by the decode worker of the request. Threshold selects prompts with more tokens that are
	// not cached on the decode worker.
	Threshold *int `json:",omitempty"`
	// When is an expression for policy.PrefillRule.
	When string `json:",omitempty"`
	// Best compares estimates of the time to the first token.
	Best bool `json:",omitempty"`

	// DecodeChosen is when a request gets its decode worker.
	DecodeChosen DecodeChosen `json:",omitempty"`
	// Sharing is the kind of sharing between transfers; "": each transfer has a separate link.
	Sharing Sharing `json:",omitempty"`
	// NIC is the bandwidth of the link out of each prefill worker and into each decode worker. Core is the bandwidth
	// of the network between prefill and decode workers. NIC and Core are in GB/s; 0: unlimited.
	NIC  float64 `json:",omitempty"`
	Core float64 `json:",omitempty"`
	// Missing omits the cached tokens of the decode worker from transfers.
	Missing bool `json:",omitempty"`
	// DecodeAdmission makes a transfer wait until its decode worker has room for the prompt.
	DecodeAdmission bool `json:",omitempty"`
	// HoldPrefill keeps the KV blocks of a prompt on its prefill worker until their transfer ends.
	HoldPrefill bool `json:",omitempty"`
	// Pull makes requests wait on their decode workers. Decode workers allocate KV blocks for a prompt and then read
	// the uncached part from the prefill worker, as with vLLM's NixlConnector. Pull requires HoldPrefill.
	Pull bool `json:",omitempty"`
	// Push sends a request to its decode worker when a prefill worker gets the request. Prefill workers write to
	// blocks that decode workers have reserved, as with vLLM's NixlPushConnector. Push requires Pull.
	Push bool `json:",omitempty"`
}

// DecodeChosen is when a request gets its decode worker.
type DecodeChosen string

const (
	AfterTransfer  DecodeChosen = ""                // after the transfer of the request's KV cache
	BeforeTransfer DecodeChosen = "before-transfer" // after the request's prompt is computed
	BeforePrefill  DecodeChosen = "before-prefill"  // at the request's arrival
)

// Sharing is the kind of sharing of links.
type Sharing string

const (
	ShareFairly  Sharing = "fair" // all at once, max-min fair
	ShareInTurns Sharing = "fifo" // at full speed, as many as have room; other transfers wait
)

// Chooses reports whether prompts may be computed on decode workers.
func (p *PD) Chooses() bool { return p != nil && (p.Threshold != nil || p.When != "" || p.Best) }

// PicksEarly reports whether a request gets its decode worker before the transfer of its KV cache.
func (p *PD) PicksEarly() bool { return p != nil && p.DecodeChosen != AfterTransfer }

// SharesLinks reports whether transfers share links.
func (p *PD) SharesLinks() bool { return p != nil && p.Sharing != "" }

// describePrompts describes the prompts for prefill workers, "" if all go there.
func (p *PD) describePrompts() string {
	switch {
	case !p.Chooses():
		return ""
	case p.Threshold != nil:
		return fmt.Sprintf("prompts with more than %d tokens that the decode worker has not cached go to prefill workers, it computes the rest", *p.Threshold)
	case p.When != "":
		return "prompts go to prefill workers where " + policy.DescribePrefillRule(p.When) + ", decode workers compute the rest"
	}
	return "prompts go to prefill workers where the first token is estimated to come sooner so, decode workers compute the rest"
}

// describeTransfers describes the settings of transfers, "" if they are the defaults.
func (t *Topology) describeTransfers() string {
	p := t.PD
	var parts []string
	if t.isOwnVLLM() && (p == nil || !p.Pull) {
		parts = append(parts, "requests are handed to decode workers by the reference's rules, not as with vLLM's NixlConnector")
	}
	if p == nil {
		p = new(PD)
	}
	if p.SharesLinks() {
		text := map[Sharing]string{ShareFairly: "share fairly", ShareInTurns: "take in turns"}[p.Sharing]
		var links []string
		if p.NIC > 0 {
			links = append(links, fmt.Sprintf("%g GB/s of each worker", p.NIC))
		}
		if p.Core > 0 {
			links = append(links, fmt.Sprintf("%g GB/s between them", p.Core))
		}
		parts = append(parts, "transfers "+text+" "+strings.Join(links, " and "))
	}
	if p.Push {
		parts = append(parts, "decode workers take KV blocks for a prompt and prefill workers write what they have not cached, as with vLLM's NixlPushConnector")
	} else if p.Pull {
		parts = append(parts, "decode workers take KV blocks for a prompt and read what they have not cached, as with vLLM's NixlConnector")
	}
	if p.Missing {
		parts = append(parts, "what the decode worker has cached is not sent")
	}
	if p.DecodeAdmission {
		parts = append(parts, "transfers wait for room on the decode worker")
	}
	if p.HoldPrefill {
		parts = append(parts, "prefill workers keep the KV blocks of a prompt until they have been sent")
	}
	return strings.Join(parts, "; ")
}

// Prefills reports whether decode workers of this pool also compute prompts.
func (s *Stage) Prefills() bool { return s.Role == scheduler.Decode && s.PD.Chooses() }

// seesCaches reports whether the router of these decode workers must know their caches.
func (s *Stage) seesCaches() bool {
	return s.Prefills() || s.Role == scheduler.Decode && s.PD != nil && s.PD.Missing
}

// ReservesRoom reports whether KV caches are transferred as between TensorRT-LLM's workers. The decode worker
// allocates the KV blocks first, and the prefill worker keeps its blocks until then. ReservesRoom is false for
// workers of several kinds or ranks.
func (t *Topology) ReservesRoom() bool {
	if !t.Disaggregated() {
		return false
	}
	for i := range t.Pools {
		p := &t.Pools[i]
		if p.Engine.Engine != engineargs.TRTLLM || p.Engine.DPSize > 1 || len(p.Mix) > 0 {
			return false
		}
	}
	return true
}

// keepsSent reports whether these workers keep the KV blocks of prompts until the end of their transfer.
func (s *Stage) keepsSent() bool {
	return s.Role == scheduler.Prefill && s.PD != nil && s.PD.HoldPrefill
}

// pulls reports whether these workers send or receive KV caches as with vLLM's NixlConnector.
func (s *Stage) pulls() bool { return s.Role != scheduler.Aggregated && s.PD != nil && s.PD.Pull }

// keptLoads returns the loads that the router of the pool keeps in addition to the needs of its policy.
func (s *Stage) keptLoads() router.Needs {
	n := router.Needs{Overlap: s.seesCaches()}
	if s.PD.Chooses() {
		n.Running, n.Tokens, n.Blocks = true, true, s.PD.Best
	}
	return n
}

// CheckPD rejects invalid settings, and settings that are not simulated.
func (t *Topology) CheckPD() error {
	p := t.PD
	switch {
	case p == nil:
		return nil
	case !t.Disaggregated():
		return errors.New("prefill and decode workers share no work in a cluster of one pool, must be two pools")
	case t.Compat:
		return errors.New("the reference sends every prompt to a prefill worker and shares no link, remove it with --compat")
	case p.Threshold != nil && *p.Threshold < 0:
		return fmt.Errorf("the threshold of prefill is %d tokens, must be at least 0", *p.Threshold)
	case !slices.Contains([]DecodeChosen{AfterTransfer, BeforeTransfer, BeforePrefill}, p.DecodeChosen):
		return excerpt.Errorf("decode workers are chosen %q, must be %s or %s", p.DecodeChosen, BeforeTransfer, BeforePrefill)
	}
	admits := t.Admission != nil || slices.ContainsFunc(t.Later(), func(c Change) bool { return c.Admission != nil })
	if p.DecodeChosen == BeforePrefill && admits {
		return errors.New("an admission decides before the router of prefill workers, and requests reach the router of decode workers first: remove one of them")
	}
	if err := cmp.Or(t.checkPull(), t.checkAdmission(), t.checkHold()); err != nil {
		return err
	}
	if err := t.checkTransfers(); err != nil || !p.Chooses() {
		return err
	}
	return t.checkChoice()
}

// checkChoice rejects decode workers that cannot compute prompts.
func (t *Topology) checkChoice() error {
	if p := t.PD; p.When != "" {
		if _, err := policy.NewPrefillRule(p.When); err != nil {
			return fmt.Errorf("when prompts go to prefill workers: %w", err)
		}
	}
	e := &t.Pools[1].Engine
	switch {
	case t.PD.DecodeChosen != BeforePrefill:
		return fmt.Errorf("the worker of a prompt is known only with its decode worker, must be chosen %s", BeforePrefill)
	case e.Engine == engineargs.SGLang:
		return errors.New("SGLang's decode workers compute no prompts, use vLLM")
	case e.Engine == engineargs.VLLM && e.Rules.Reference():
		return errors.New("decode workers compute no prompts by the reference's rules, use vLLM's own (--scheduler-profile)")
	}
	return nil
}

// checkAdmission rejects decode workers that do not support DecodeAdmission.
func (t *Topology) checkAdmission() error {
	p, decode := t.PD, &t.Pools[1]
	switch e := &decode.Engine; {
	case !p.DecodeAdmission:
		return nil
	case !p.PicksEarly():
		return fmt.Errorf("a decode worker is asked for room before the transfer, requires decode workers chosen %s or %s", BeforeTransfer, BeforePrefill)
	case e.Engine == engineargs.SGLang:
		return errors.New("SGLang's decode workers are not asked for room, use vLLM")
	case e.Engine == engineargs.VLLM && e.Rules.Reference():
		return errors.New("decode workers are not asked for room by the reference's rules, use vLLM's own (--scheduler-profile)")
	case len(decode.Mix) > 0 || e.DPSize > 1 || e.Windows.Given():
		return errors.New("decode workers of several kinds, of data-parallel ranks or with layers that have windows are not asked for room, use other workers")
	}
	return nil
}

// checkHold rejects prefill workers that cannot keep the KV blocks of prompts.
func (t *Topology) checkHold() error {
	p, prefill := t.PD, &t.Pools[0]
	switch e := &prefill.Engine; {
	case !p.HoldPrefill:
		return nil
	case !p.PicksEarly():
		return fmt.Errorf("KV blocks are held until they are sent to a worker, requires decode workers chosen %s or %s", BeforeTransfer, BeforePrefill)
	case e.Engine == engineargs.SGLang:
		return errors.New("SGLang's prefill workers always keep the pages of a prompt until they are sent, use vLLM or remove the setting")
	case e.Engine == engineargs.VLLM && e.Rules.Reference():
		return errors.New("prefill workers hold no KV blocks of computed prompts by the reference's rules, use vLLM's own (--scheduler-profile)")
	case len(prefill.Mix) > 0 || e.DPSize > 1 || e.Windows.Given():
		return errors.New("prefill workers of several kinds, of data-parallel ranks or with layers that have windows hold no KV blocks of computed prompts, use other workers")
	}
	return nil
}

// isOwnVLLM reports whether there are two pools of vLLM workers with vLLM's own rules.
func (t *Topology) isOwnVLLM() bool {
	own := func(p Pool) bool { return p.Engine.Engine == engineargs.VLLM && !p.Engine.Rules.Reference() }
	return t.Disaggregated() && !t.Compat && own(t.Pools[0]) && own(t.Pools[1])
}

// CanPull reports whether decode workers can read KV caches as with vLLM's NixlConnector.
func (t *Topology) CanPull() bool {
	pulled := *t
	pulled.PD = &PD{Pull: true, HoldPrefill: true, DecodeChosen: BeforeTransfer}
	return t.isOwnVLLM() && pulled.checkPull() == nil
}

// checkPull rejects workers that cannot read KV caches from each other as with vLLM's NixlConnector.
func (t *Topology) checkPull() error {
	p := t.PD
	switch {
	case p.Push && !p.Pull:
		return errors.New("prefill workers that write KV caches require decode workers that take the blocks for them")
	case !p.Pull:
		return nil
	case p.Push && (t.Client != nil || t.Autoscales()):
		return errors.New("KV caches that prefill workers write are not supported with clients that give up or autoscalers")
	case p.DecodeAdmission || p.Missing:
		return errors.New("decode workers that read KV caches take blocks and find what is missing themselves: an admission of transfers is not supported with them")
	case !p.HoldPrefill:
		return errors.New("decode workers read KV caches from prefill workers, which must hold the KV blocks")
	case p.DecodeChosen == AfterTransfer:
		return fmt.Errorf("decode workers read KV caches, must be chosen %s or %s", BeforeTransfer, BeforePrefill)
	case t.Faults != nil:
		return errors.New("KV caches that decode workers read are not supported with faults")
	}
	for i := range t.Pools {
		switch s := &t.Pools[i]; {
		case s.Engine.Engine != engineargs.VLLM || s.Engine.Rules.Reference():
			return errors.New("workers that read KV caches from each other must be of vLLM, by its own rules (--scheduler-profile)")
		case len(s.Mix) > 0 || s.Engine.DPSize > 1 || s.Engine.Windows.Given() || s.Engine.Speculative != nil:
			return errors.New("KV caches that decode workers read are not supported with workers of several kinds, data-parallel ranks, layers with windows or speculative decoding")
		case i == 0 && s.Engine.KVBytesPerToken == 0:
			return errors.New("transfers of unknown size: kv_bytes_per_token is required")
		}
	}
	return nil
}

// checkTransfers rejects transfers that are not simulated.
func (t *Topology) checkTransfers() error {
	p, e := t.PD, &t.Pools[0].Engine
	finite := func(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
	switch {
	case !finite(p.NIC) || !finite(p.Core):
		return fmt.Errorf("bandwidths are %v and %v GB/s, must be at least 0", p.NIC, p.Core)
	case !p.SharesLinks() && !p.Missing && (p.NIC > 0 || p.Core > 0):
		return errors.New("a bandwidth of links that are not shared, requires links shared fairly or in turns")
	case !p.SharesLinks() && !p.Missing:
		return nil
	case p.SharesLinks() && !slices.Contains([]Sharing{ShareFairly, ShareInTurns}, p.Sharing):
		return excerpt.Errorf("transfers share links by %q, must be %s or %s", p.Sharing, ShareFairly, ShareInTurns)
	case p.SharesLinks() && p.NIC == 0 && p.Core == 0:
		return errors.New("links to share without a bandwidth, requires that of workers (nic) or that between them (core)")
	case !p.PicksEarly():
		return fmt.Errorf("a transfer goes to a worker, requires decode workers chosen %s or %s", BeforeTransfer, BeforePrefill)
	case e.Engine == engineargs.SGLang:
		return errors.New("SGLang's prefill workers send prompts in pieces while they compute, each as if it had the link to itself; use vLLM")
	case e.KVBytesPerToken == 0:
		return errors.New("transfers of unknown size, require kv_bytes_per_token")
	}
	return nil
}
