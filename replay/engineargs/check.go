package engineargs

import (
	"fmt"
	"math"
	"strconv"
)

// maxBlocks keeps block numbers in 31 bits.
const maxBlocks = math.MaxInt32

// check settles the block size and refuses arguments that do not fit together.
func (a *Args) check(compat bool) error {
	if a.Blocks > maxBlocks {
		return &KeyError{"num_gpu_blocks", strconv.Itoa(a.Blocks), fmt.Sprintf("at most %d", maxBlocks)}
	}
	if a.Engine == SGLang {
		return a.checkSGLang(compat)
	}
	if a.BlockTokens == 0 {
		a.BlockTokens = 64
	}
	return nil
}

func (a *Args) checkSGLang(compat bool) error {
	s := &a.SGLang
	switch {
	case s.PageGiven && s.PageTokens == 0 && a.BlockTokens == 0:
		return &KeyError{"sglang.page_size", "0", "at least 1"}
	case s.PageTokens > 0 && a.BlockTokens > 0 && s.PageTokens != a.BlockTokens:
		return &KeyError{"sglang.page_size", strconv.Itoa(s.PageTokens), fmt.Sprintf("block_size, which is %d", a.BlockTokens)}
	}
	a.BlockTokens = max(a.BlockTokens, s.PageTokens, 1)
	if s.ChunkGiven && s.ChunkTokens%a.BlockTokens != 0 {
		return &KeyError{"sglang.chunked_prefill_size", strconv.Itoa(s.ChunkTokens),
			fmt.Sprintf("a multiple of block_size, which is %d", a.BlockTokens)}
	}
	return a.checkBudgets(compat)
}

// checkBudgets refuses engines that could never admit a request, which the
// reference runs for ever.
func (a *Args) checkBudgets(compat bool) error {
	s := &a.SGLang
	page := fmt.Sprintf("at least block_size, which is %d", a.BlockTokens)
	switch {
	case s.MaxPrefillTokens == 0:
		return &KeyError{"sglang.max_prefill_tokens", "0", "at least 1"}
	case s.ChunkTokens < a.BlockTokens:
		return &KeyError{"sglang.chunked_prefill_size", strconv.Itoa(s.ChunkTokens), page}
	case compat && s.MaxPrefillTokens < a.BlockTokens:
		return &KeyError{"sglang.max_prefill_tokens", strconv.Itoa(s.MaxPrefillTokens), page}
	case !compat && s.Conservativeness < 0:
		return &KeyError{"sglang.schedule_conservativeness", strconv.FormatFloat(s.Conservativeness, 'g', -1, 64), "at least 0"}
	case a.BlockTokens > math.MaxInt32/2 || a.Blocks > math.MaxInt/a.BlockTokens:
		return &KeyError{"block_size", strconv.Itoa(a.BlockTokens), "at most 1073741823"}
	}
	return nil
}
