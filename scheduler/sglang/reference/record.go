package reference

import (
	"github.com/replay-llm/replay/scheduler"
)

// recorder records the changes of the cache for a router.
type recorder interface {
	begin(p *scheduler.Pass)                 // later changes belong to p
	evicted()                                // an eviction has ended
	prefilled(r *request, before, after int) // the tokens of r from before to after were allocated
	generated(r *request, length int)        // r gained a token and now has the given length
	released(r *request, kept int)           // r released its tokens after the first kept tokens
	forgotten(r *request)                    // r has no tokens any more
}

// startRecord selects the recorder.
func (c *Core) startRecord() error {
	c.record = silent{}
	if c.Capture != scheduler.CaptureEvents {
		return nil // a router never finds the reference's hashes
	}
	l, err := newLedger(c.Config, c.tree)
	if err != nil {
		return err
	}
	c.record, c.tree.Watch, c.tokenwise = l, l, true
	return nil
}

// silent records nothing.
type silent struct{}

func (silent) begin(*scheduler.Pass)        {}
func (silent) evicted()                     {}
func (silent) prefilled(*request, int, int) {}
func (silent) generated(*request, int)      {}
func (silent) released(*request, int)       {}
func (silent) forgotten(*request)           {}
