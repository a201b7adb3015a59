package options

import (
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// IsAutoscaler reports whether the value of --autoscale is the contents of a file, and not its path.
func IsAutoscaler(value string) bool { return strings.HasPrefix(value, "{") }

// fillAutoscale sets the autoscaler in spec.
func (c *cluster) fillAutoscale(spec *replay.Spec) error {
	path := c.autoscale
	if path == "" {
		return nil
	}
	text, err := []byte(path), error(nil)
	if IsAutoscaler(path) {
		path = "--autoscale"
	} else if text, err = os.ReadFile(path); err != nil {
		return fmt.Errorf("--autoscale: %w", err)
	}
	if spec.Autoscale, spec.AutoscaleDecode, err = files.ParseAutoscale(path, text, spec.Disaggregated()); err != nil {
		return err
	}
	flags := []string{"workers"}
	if spec.Disaggregated() {
		flags = []string{"prefill-workers", "decode-workers"}
	}
	for i, flag := range flags {
		if a := spec.AutoscalerOf(i); a != nil && !c.Changed(flag) {
			spec.Pools[i].Count = max(a.Min, 1)
		}
	}
	if err := spec.Topology.CheckAutoscale(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
