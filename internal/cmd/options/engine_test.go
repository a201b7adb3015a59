package options

import (
	"testing"

	"github.com/replay-llm/replay/schema"
)

// TestSettingsTakeAnything sets each engine flag to valid and invalid texts. Each text is accepted or rejected
// without a panic.
func TestSettingsTakeAnything(t *testing.T) {
	for _, s := range EngineFlags() {
		for _, text := range []string{"", "file", "-1", "1e400", "null", "{", "true", "1..", "unlimited"} {
			if err := s.Set(text); err == nil && s.JSON == "" && text != "" {
				t.Errorf("--%s=%s: neither taken nor refused", s.Flag, text)
			}
		}
	}
}

// TestSettingsAreReadAgain sets each engine flag to the text of its value, because plans, forks and sweeps pass
// settings as text.
func TestSettingsAreReadAgain(t *testing.T) {
	ranges := 0
	for _, s := range EngineFlags() {
		for _, text := range append([]string{"file", "3", "0.25", "0.5..0.9", "true", "unlimited", "{}"}, s.Names...) {
			if s.Set(text) != nil {
				continue
			}
			first := s.JSON
			if err := s.Set(s.String()); err != nil || s.JSON != first {
				t.Errorf("--%s=%s: read as %q, which is %s again, %v; want %s", s.Flag, text, s.String(), s.JSON, err, first)
			}
			if text == "0.5..0.9" && s.Kind == schema.Range {
				ranges++
			}
		}
	}
	if ranges == 0 {
		t.Error("no flag takes a range")
	}
}
