package engineargs

import (
	"fmt"
	"strconv"
)

// checkWindows refuses groups of layers that cannot be.
func (a *Args) checkWindows() error {
	key := "sliding_window"
	if a.Windows.Chunked {
		key = "attention_chunk_size"
	}
	if err := a.Windows.Check(a.BlockTokens); err != nil {
		return fmt.Errorf("%s and layer_types: %w", key, err)
	}
	if a.Windows.Given() && a.G2.Blocks > 0 {
		return refuseValue("num_g2_blocks", strconv.Itoa(a.G2.Blocks), "none beside "+key)
	}
	return nil
}
