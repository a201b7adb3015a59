package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// consistentHash sends the turns of a session to one worker, as the policy consistent_hash of vllm-router does: workers have 160 points
// each on a ring, by the hashes of their URLs, and a session goes to the next point from its own hash on, whatever the load.
type consistentHash struct {
	url     string
	members []sim.WorkerID // of the ring
	ring    []point        // by hash; no hash twice
}

// point is a place of a worker on a ring.
type point struct {
	hash   uint64
	worker sim.WorkerID
}

// pointsPerWorker is the number of places of a worker.
const pointsPerWorker = 160

func newConsistentHash(o Options) (router.Policy, error) {
	return &consistentHash{url: o.gateway(ConsistentHash).WorkerURL}, nil
}

func (p *consistentHash) Needs() router.Needs { return router.Needs{} }

func (p *consistentHash) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	if !slices.Equal(c.Workers, p.members) {
		p.build(c)
	}
	key := "header:x-session-id:" + strconv.Itoa(int(q.Session))
	if q.Session < 0 {
		key = "request:" + strconv.Itoa(int(q.ID))
	}
	i, _ := slices.BinarySearchFunc(p.ring, ringHash(key), func(x point, hash uint64) int { return cmp.Compare(x.hash, hash) })
	if i == len(p.ring) {
		i = 0
	}
	return router.Choice{Worker: p.ring[i].worker, Second: router.None}
}

// build places the candidates on the ring. Of two points with one hash the later remains.
func (p *consistentHash) build(c *router.Candidates) {
	p.members, p.ring = append(p.members[:0], c.Workers...), p.ring[:0]
	for _, w := range c.Workers {
		url := urlOf(p.url, c.Name(w))
		for i := range pointsPerWorker {
			p.ring = append(p.ring, point{ringHash(url + ":" + strconv.Itoa(i)), w})
		}
	}
	slices.SortStableFunc(p.ring, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	kept := p.ring[:0]
	for i, x := range p.ring {
		if i+1 == len(p.ring) || p.ring[i+1].hash != x.hash {
			kept = append(kept, x)
		}
	}
	p.ring = kept
}

// urlOf returns the URL of a worker, by a template.
func urlOf(template string, name uint64) string {
	return strings.ReplaceAll(template, idInURL, strconv.FormatUint(name, 10))
}
