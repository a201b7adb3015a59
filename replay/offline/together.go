package offline

// admitTogether admits the requests that arrive now to a router that places them in one decision. admitTogether reports
// whether a request was rejected or shed, so that another may arrive.
func (c *cluster) admitTogether(p *pool) (again bool, err error) {
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
		id := q.ID // a shed request is removed from Requests
		if err := c.enterCluster(q); err != nil {
			return false, err
		}
		again = again || c.Requests.Get(int(id)) == nil
	}
	return again, p.Expect(c.now, nil)
}
