package options

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestSettingsTakeAnything gives every flag of the engine texts that fit none or some of
// them: each is taken or refused.
func TestSettingsTakeAnything(t *testing.T) {
	for _, s := range EngineSettings() {
		s.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
		for _, text := range []string{"", "file", "-1", "1e400", "null", "{", "true", "1..", "unlimited"} {
			if err := s.Set(text); err == nil && *s.text == "" && text != "" {
				t.Errorf("--%s=%s: neither taken nor refused", s.Name, text)
			}
		}
	}
}
