package policy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// consistentHash is the policy consistent_hash of vllm-router and consistent_hashing of smg. consistentHash sends all
// turns of a session to one worker. Workers have points on a ring, at the hashes of their URLs. A session goes to the
// next point after its hash, regardless of the load. smg draws a worker for a request without a session.
type consistentHash struct {
	settings GatewaySettings
	members  []sim.WorkerID // workers on the ring
	ring     []point        // sorted by hash, which is unique

	// The following fields are only for smg.
	rand  *rand.Rand
	among func([]sim.WorkerID) sim.WorkerID
}

// point is a position of a worker on a ring.
type point struct {
	hash   uint64
	worker sim.WorkerID
}

// pointsPerWorker and pointsOfSMG are the numbers of points per worker.
const (
	pointsPerWorker = 160
	pointsOfSMG     = 150
)

func newConsistentHash(o Options) (router.Policy, error) {
	p := &consistentHash{settings: o.gateway(ConsistentHash)}
	if p.settings.Gateway == SMG {
		p.rand, p.among = newRand(o), o.Among
	}
	return p, nil
}

func (p *consistentHash) Needs() router.Needs { return router.Needs{} }

func (p *consistentHash) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	if !slices.Equal(c.Workers, p.members) {
		p.build(c)
	}
	var hash uint64
	switch smg := p.settings.Gateway == SMG; {
	case smg && q.Session < 0:
		return router.Choice{Worker: drawOne(c.Workers, p.rand, p.among), Second: router.None}
	case smg:
		hash = blakeHash(strconv.Itoa(int(q.Session)))
	case q.Session < 0:
		hash = ringHash("request:" + strconv.Itoa(int(q.ID)))
	default:
		hash = ringHash("header:x-session-id:" + strconv.Itoa(int(q.Session)))
	}
	i, _ := slices.BinarySearchFunc(p.ring, hash, func(x point, hash uint64) int { return cmp.Compare(x.hash, hash) })
	if i == len(p.ring) {
		i = 0
	}
	return router.Choice{Worker: p.ring[i].worker, Second: router.None}
}

// build puts the candidates on the ring. Of two points with the same hash, build keeps the later point.
func (p *consistentHash) build(c *router.Candidates) {
	p.members, p.ring = append(p.members[:0], c.Workers...), p.ring[:0]
	for _, w := range c.Workers {
		url := urlOf(p.settings.WorkerURL, c.Name(w))
		if p.settings.Gateway == SMG {
			for i := range pointsOfSMG {
				p.ring = append(p.ring, point{blakeHash(url + "#" + strconv.Itoa(i)), w})
			}
			continue
		}
		for i := range pointsPerWorker {
			p.ring = append(p.ring, point{ringHash(url + ":" + strconv.Itoa(i)), w})
		}
	}
	stable.Sort(p.ring, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	kept := p.ring[:0]
	for i, x := range p.ring {
		if i+1 == len(p.ring) || p.ring[i+1].hash != x.hash {
			kept = append(kept, x)
		}
	}
	p.ring = kept
}

// urlOf returns the URL of a worker. idInURL in the template is replaced by its name.
func urlOf(template string, name uint64) string {
	return strings.ReplaceAll(template, idInURL, strconv.FormatUint(name, 10))
}
