package reference

import (
	"github.com/replay-llm/replay/scheduler"
)

// recorder keeps the record of the cache that a router is shown.
type recorder interface {
	begin(p *scheduler.Pass)                 // what happens from now on belongs to p
	evicted()                                // an eviction is over
	prefilled(r *request, before, after int) // r's tokens from before to after got places
	generated(r *request, length int)        // r got its last token, of length
	released(r *request, kept int)           // r gives its places after kept back
	forgotten(r *request)                    // r holds nothing any more
}

// startRecord chooses the recorder.
func (c *Core) startRecord() error {
	c.record = silent{}
	if c.Capture != scheduler.CaptureEvents {
		return nil // the router never finds the reference's hashes
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
