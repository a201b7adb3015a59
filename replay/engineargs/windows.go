package engineargs

import "fmt"

// checkWindows rejects invalid groups of layers.
func (a *Args) checkWindows() error {
	key := "sliding_window"
	if a.Windows.Chunked {
		key = "attention_chunk_size"
	}
	if err := a.Windows.Check(a.BlockTokens); err != nil {
		return fmt.Errorf("%s and layer_types: %w", key, err)
	}
	if a.Windows.Given() && a.G2.Asked() {
		host, value := a.G2.Key()
		return &KeyError{Key: host, Value: value, Rule: "not supported with " + key}
	}
	return nil
}
