package offline

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
)

// readChanges reads planned changes: change=(AT:workers:N), with decode, router, speedup or speed instead of workers.
func readChanges(t *testing.T, d *datadriven.TestData, x *trial) {
	for _, arg := range d.CmdArgs {
		if arg.Key != "change" {
			continue
		}
		for _, v := range arg.Vals {
			parts := strings.Split(v, ":")
			var c engines.Change
			to := map[string]any{"workers": &c.Workers, "decode": &c.Decode, "speedup": &c.Speedup}[parts[1]]
			if parts[1] == "router" {
				c.Routing = policy.Name(parts[2])
				to = new(string)
			}
			if parts[1] == "speed" { // speeds of workers, for example 0.5/1
				var speeds []float64
				for _, text := range strings.Split(parts[2], "/") {
					speed, err := strconv.ParseFloat(text, 64)
					if err != nil {
						d.Fatalf(t, "change=%s: %v", v, err)
					}
					speeds = append(speeds, speed)
				}
				c.WorkerSpeeds, parts[2], to = [][]float64{speeds}, "0", new(int)
			}
			if _, err := fmt.Sscan(parts[0]+" "+parts[2], (*float64)(&c.At), to); err != nil {
				d.Fatalf(t, "change=%s: %v", v, err)
			}
			x.cfg.Changes = append(x.cfg.Changes, c)
		}
	}
}
