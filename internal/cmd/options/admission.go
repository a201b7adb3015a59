package options

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// fillAdmission enters into spec which requests are held back or turned away.
func (c *cluster) fillAdmission(spec *replay.Spec) error {
	path := c.admission
	if path == "" {
		return nil
	}
	if c.IsLive() || c.IsCluster() {
		return c.Only("admission", "with --mode offline")
	}
	text, err := os.ReadFile(path)
	if err == nil {
		spec.Admission, err = files.ParseAdmission(path, text)
	}
	if err != nil {
		return fmt.Errorf("--admission: %w", err)
	}
	return nil
}
