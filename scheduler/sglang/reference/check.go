package reference

import "fmt"

// checkTotals compares the totals with the running requests.
func (c *Core) checkTotals() {
	var t totals
	t.phase = make([]int32, c.PageTokens)
	for i, r := range c.running {
		if r.place != i {
			panic(fmt.Sprintf("running: request %d is in place %d and believes to be in %d", r.ID, i, r.place))
		}
		n := c.lengthOf(r)
		t.length += n
		t.slack += c.slackOf(n)
		left := max(1, r.maxOut) - r.out - c.tokensSince(r)
		t.reserve += min(left, c.ClipNewTokens)
		if left > c.ClipNewTokens {
			t.clipped++
		}
		t.phase[c.phaseOf(r)]++
	}
	got := c.totals
	if got.length != t.length || got.slack != t.slack || got.reserve != t.reserve || got.clipped != t.clipped {
		panic(fmt.Sprintf("running: sums are %+v, must be %+v", got, t))
	}
	for i := range t.phase {
		if t.phase[i] != got.phase[i] {
			panic(fmt.Sprintf("running: %d requests in phase %d, must be %d", got.phase[i], i, t.phase[i]))
		}
	}
}
