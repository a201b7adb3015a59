package options

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// fillScale sets the changes of the number of workers in spec.
func (c *cluster) fillScale(spec *replay.Spec) error {
	path := c.scale
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--scale: %w", err)
	}
	spec.Scale, err = files.ParseScale(path, text, spec.Disaggregated())
	return err
}
