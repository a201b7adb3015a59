package hardware

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Rope describes how a model scales its rotary positions for longer sequences. The zero value means no scaling.
type Rope struct {
	Type     string  // name of the method in transformers
	Factor   float64 // factor of YaRN; 0: no YaRN
	Original int     // sequence length in tokens before scaling; 0: not given
	Nested   bool    // the configuration has a scaling for each type of layer
}

// ropeConfig is the content of rope_scaling or rope_parameters in a config.json.
type ropeConfig struct {
	Type     string   `json:"rope_type"`
	Old      string   `json:"type"`
	Factor   *float64 `json:"factor"`
	Original int      `json:"original_max_position_embeddings"`
}

// maxFactor is the maximum factor of a scaling.
const maxFactor = 10_000

// readRope returns the scaling of a configuration.
func (c *config) readRope() (Rope, error) {
	for _, x := range []struct {
		name string
		text json.RawMessage
	}{{"rope_parameters", c.RopeParameters}, {"rope_scaling", c.RopeScaling}} {
		if len(x.text) == 0 || string(x.text) == "null" {
			continue
		}
		r, err := parseRope(x.text)
		if err != nil {
			return r, fmt.Errorf("%s: %w", x.name, err)
		}
		if r.Original == 0 {
			r.Original = c.Original
		}
		return r, nil
	}
	return Rope{}, nil
}

// parseRope parses a scaling, either for all layers or by type of layer.
func parseRope(text json.RawMessage) (r Rope, err error) {
	var byLayer map[string]json.RawMessage
	if err := json.Unmarshal(text, &byLayer); err != nil {
		return r, err
	}
	for _, layer := range []string{"sliding_attention", "chunked_attention", "full_attention"} { // the last present type is used; layers with a window are rarely scaled
		if one := byLayer[layer]; len(one) > 0 && string(one) != "null" {
			if r, err = parseRope(one); err != nil {
				return r, err
			}
			r.Nested = true
		}
	}
	if r.Nested {
		return r, nil
	}
	var c ropeConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return r, err
	}
	r = Rope{Type: c.Type, Original: c.Original}
	if r.Type == "" {
		r.Type = c.Old
	}
	if c.Factor != nil {
		r.Factor = *c.Factor
		if !(r.Factor > 0) || r.Factor > maxFactor {
			return r, fmt.Errorf("factor is %v, must be above 0 and at most %d", r.Factor, maxFactor)
		}
	}
	if r.Original < 0 || r.Original > largestSize {
		return r, fmt.Errorf("original_max_position_embeddings is %d, must be 0 to %d", r.Original, largestSize)
	}
	return r, nil
}

// lengthBy returns the longest sequence of m for an engine, or 0 if it is unknown. sglang selects SGLang instead of
// vLLM. timesYarn selects vLLM before 0.30, which multiplies the original length of YaRN by its factor.
func (m *Model) lengthBy(sglang, timesYarn bool) int {
	r := &m.Rope
	factor := r.Factor
	if factor == 0 {
		factor = 1
	}
	scaled := func(tokens int) int { return int(float64(tokens) * factor) }
	switch {
	case m.Context == 0 || strings.HasPrefix(m.Family, "gemma3"):
		return m.Context
	case sglang:
		if r.Nested || r.Original > 0 || slices.Contains([]string{"llama3", "yarn", "longrope"}, r.Type) {
			return m.Context
		}
		return scaled(m.Context)
	case r.Type == "longrope" && r.Original > 0:
		return r.Original
	case slices.Contains([]string{"su", "longrope", "llama3"}, r.Type):
		return m.Context
	case r.Type == "yarn" && timesYarn && r.Original > 0:
		return scaled(r.Original)
	case strings.HasSuffix(r.Type, "yarn") && !timesYarn, r.Type == "deepseek_llama_scaling" && !timesYarn:
		return m.Context
	}
	return scaled(m.Context)
}
