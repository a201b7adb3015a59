package offline

// takeTogether takes in the requests that arrive now before a router that decides on them together. It reports
// whether the place of one of them is free for another.
func (c *cluster) takeTogether(p *pool) (again bool, err error) {
	c.together = c.together[:0]
	for i := range c.arrivals {
		a := &c.arrivals[i]
		ok, err := c.noteArrival(a)
		if err != nil {
			return false, err
		}
		if !ok {
			again = true
			continue
		}
		p.prompts += a.Request.InputTokens
		c.together = append(c.together, a.Request)
	}
	if err := p.Expect(c.now, c.together); err != nil {
		return false, err
	}
	for _, q := range c.together {
		id := q.ID // one that is shed is not there any more
		if err := c.enterCluster(q); err != nil {
			return false, err
		}
		again = again || c.Requests.Get(int(id)) == nil
	}
	return again, p.Expect(c.now, nil)
}
