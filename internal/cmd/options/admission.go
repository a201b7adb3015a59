package options

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
)

// fillAdmission sets the rules that hold or reject requests in spec.
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
