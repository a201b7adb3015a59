package sglang

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/lockstep"
	"github.com/replay-llm/replay/sim"
)

// Balance is the policy that assigns requests to the ranks of a worker.
type Balance uint8

const (
	RoundRobin    Balance = iota // requests go to the ranks in turn
	BootstrapRoom                // requests go to the rank given by their id
	TotalRequests                // requests go to the rank with the fewest requests
	TotalTokens                  // requests go to the rank with the fewest tokens
)

// listBalances returns the names of the policies, auto first.
func listBalances() []string {
	return []string{"auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens"}
}

// ParseBalance returns the policy with the given name. For auto, "" or an unknown name, the policy depends on the
// role.
func ParseBalance(name string, role scheduler.Role) Balance {
	if at := slices.Index(listBalances(), name); at > 0 {
		return Balance(at - 1)
	}
	if role == scheduler.Prefill {
		return BootstrapRoom
	}
	return RoundRobin
}

// rankShare is the factor that the server applies to conservativeness with data-parallel attention.
const rankShare = 0.3

// ofRank returns the configuration of each of n ranks of an engine with configuration c, divided as by the server.
func ofRank(c Config, n int) Config {
	if n > 1 {
		c.ChunkTokens = floorTo(c.ChunkTokens/n, max(1, c.PageTokens))
		c.Conservativeness *= rankShare
		if c.MaxRunning > 0 {
			c.MaxRunning = max(1, c.MaxRunning/n)
		}
	}
	return c
}

// NewRanks returns an idle worker of n engines in lockstep, each with the configuration ofRank(c, n).
func NewRanks(c Config, n int, how Balance) (scheduler.Core, error) {
	own := ofRank(c, n)
	if own.ChunkTokens <= 0 && c.ChunkTokens > 0 {
		return nil, fmt.Errorf("chunked_prefill_size is %d over %d ranks, must be at least block_size %d for each", c.ChunkTokens, n, c.PageTokens)
	}
	if c.HiCache.Pages > 0 {
		return nil, fmt.Errorf("host memory behind %d ranks in lockstep is not supported: it is not simulated", n)
	}
	b := &balancer{how: how, believed: make([]load, n), boards: make([]board, n), refreshed: -refreshMs}
	var ranks []lockstep.Rank
	var planners []lockstep.Planner
	for i := range n {
		core, err := New(own)
		if err != nil {
			return nil, err
		}
		core.isRank, core.pages.caching = true, own.PrefixCaching
		if how == TotalRequests || how == TotalTokens {
			core.board = &b.boards[i]
		}
		b.ranks = append(b.ranks, core)
		ranks, planners = append(ranks, core), append(planners, core)
	}
	return lockstep.New(ranks, lockstep.Options{Clock: c.Clock, Slowest: true, Balancer: b, Planners: planners}), nil
}

// Planned reports whether the next pass is planned.
func (c *Core) Planned() bool { return c.next.planned }

// CopyTime returns 0: host memory behind ranks in lockstep is not simulated.
func (c *Core) CopyTime(sim.Time) float64 { return 0 }

// Wait begins a pass on a rank that takes no part in it and waits for the other ranks.
func (c *Core) Wait(now sim.Time, p *scheduler.Pass) float64 {
	c.openPass(now, p)
	if c.Overlap && c.live > 0 {
		c.planPass(c.after, p)
	}
	c.reportLoad(false)
	return 0
}

// load is the load of a rank.
type load struct{ requests, tokens int }

// board contains the latest load report of a rank.
type board struct {
	load
	fresh  bool // the report was not read yet
	silent int  // number of passes since the report
}

// reportEvery is the number of passes after which a rank reports its load if it computes no prompts.
const reportEvery = 15

// reportLoad reports the load of the rank, if it has a board: its number of requests, and the tokens in use plus the
// tokens of waiting requests. Requests with prompts in computation are not counted.
func (c *Core) reportLoad(prompts bool) {
	b := c.board
	if b == nil {
		return
	}
	if b.silent++; !prompts && b.silent < reportEvery {
		return
	}
	l := load{requests: c.queue.waiting.Len(), tokens: c.pages.pool - c.pages.free - c.pages.evictableTokens()}
	if !c.mixed {
		l.requests += len(c.batch.running)
	}
	for _, r := range c.queue.waiting.All() {
		l.tokens += r.length()
	}
	*b = board{load: l, fresh: true}
}

// refreshMs is the minimum time between two reads of the reports by a balancer, in ms.
const refreshMs = 20

// balancer assigns requests to ranks.
type balancer struct {
	how       Balance
	ranks     []*Core
	next      int     // next rank for RoundRobin
	boards    []board // boards of the ranks
	believed  []load  // latest report of each rank plus the requests sent since
	refreshed sim.Time
}

// Choose returns the rank for r.
func (b *balancer) Choose(r *sim.Request) int {
	switch b.how {
	case RoundRobin:
		rank := b.next
		b.next = (rank + 1) % len(b.ranks)
		return rank
	case BootstrapRoom:
		return int(r.ID) % len(b.ranks)
	}
	b.readBoards(r.Arrived)
	best := 0
	for i, l := range b.believed {
		if b.isLess(l, b.believed[best]) {
			best = i
		}
	}
	b.believed[best].requests++
	if b.how == TotalTokens {
		b.believed[best].tokens += r.InputTokens
	}
	return best
}

// isLess reports whether a rank with load x is preferred to a rank with load y.
func (b *balancer) isLess(x, y load) bool {
	if b.how == TotalTokens && x.tokens != y.tokens {
		return x.tokens < y.tokens
	}
	return x.requests < y.requests
}

// readBoards copies the reports of ranks, unless the last copy is less than 20 ms old. Idle ranks always have a fresh
// report.
func (b *balancer) readBoards(now sim.Time) {
	if b.isIdle(now) {
		for i := range b.boards {
			b.boards[i] = board{fresh: true}
		}
	}
	if now/1000-b.refreshed/1000 < refreshMs/1000.0 {
		return
	}
	b.refreshed = now
	for i := range b.boards {
		if b.boards[i].fresh {
			b.believed[i], b.boards[i].fresh = b.boards[i].load, false
		}
	}
}

// isIdle reports whether all ranks have been without work since before now.
func (b *balancer) isIdle(now sim.Time) bool {
	return !slices.ContainsFunc(b.ranks, func(c *Core) bool { return c.live > 0 || c.lastEnd >= now && now > 0 })
}

// WaitsUntil returns 0, because a rank never waits for transfers without a pass.
func (c *Core) WaitsUntil() sim.Time { return 0 }
