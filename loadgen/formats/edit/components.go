package edit

import "github.com/replay-llm/replay/loadgen/formats"

// connectSessions assigns the same key to sessions with shared leading blocks. A random sample therefore keeps or
// drops sessions with shared blocks together.
func (p *Sample) connectSessions(from Source, units map[string]*unit) error {
	common, err := p.findCommon(from, units)
	if err != nil {
		return err
	}
	sets := formats.NewForest(len(units))
	first := make(map[uint64]int32) // session by hash of its leading blocks
	var name []byte
	err = eachRecord(from, func(_ *formats.Stream, r *formats.Record) error {
		name = unitName(r, name)
		u := units[string(name)]
		beginning, ok := p.beginning(r, common)
		if !ok {
			return nil
		}
		if other, found := first[beginning]; found {
			sets.Join(other, int32(u.number))
		} else {
			first[beginning] = int32(u.number)
		}
		return nil
	})
	if err != nil {
		return err
	}
	keys := make([]uint64, len(units))
	for _, u := range units {
		keys[u.number] = u.key
	}
	for _, u := range units {
		u.key = keys[sets.RootOf(int32(u.number))]
	}
	return nil
}

// beginning returns a hash of the leading blocks of r, up to the block number MinShared after the common blocks.
// beginning returns false if r has fewer blocks.
func (p *Sample) beginning(r *formats.Record, common map[uint64]bool) (uint64, bool) {
	chain, own := uint64(0), 0
	for _, id := range r.IDs {
		chain = (chain^id)*0xd6e8feb86659fd93 + 1
		chain ^= chain >> 29
		if own > 0 || !common[id] {
			own++
		}
		if own == p.MinShared {
			return chain, true
		}
	}
	return 0, false
}

// findCommon returns the ids that occur in more than the share Common of all sessions.
func (p *Sample) findCommon(from Source, units map[string]*unit) (map[uint64]bool, error) {
	type count struct{ sessions, last int32 }
	counts := make(map[uint64]count)
	var name []byte
	err := eachRecord(from, func(_ *formats.Stream, r *formats.Record) error {
		name = unitName(r, name)
		number := int32(units[string(name)].number)
		for _, id := range r.IDs {
			c := counts[id]
			if c.sessions == 0 || c.last != number {
				counts[id] = count{c.sessions + 1, number}
			}
		}
		return nil
	})
	common := make(map[uint64]bool)
	for id, c := range counts {
		if float64(c.sessions) > p.Common*float64(len(units)) {
			common[id] = true
		}
	}
	return common, err
}
