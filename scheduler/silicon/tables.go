package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// Tables returns the measured operators of the passes.
func (c *Composer) Tables() *optables.Tables { return c.tables }
