package engineargs

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/schema"
)

// Options configure the parsing of arguments.
type Options struct {
	// Compat reproduces the reference: values of the wrong JSON type are ignored, and decimals have its rounding.
	Compat bool
	// Set has values that override the text, in order.
	Set []Setting
	// Unless has values for keys that neither the text nor Set has.
	Unless []Setting
	// Incomplete accepts arguments that require vLLM's own rules even if the rules are missing, because the rules may
	// be set later.
	Incomplete bool
	// Pool is the role of engines with arguments that name no role.
	Pool scheduler.Role
}

// Setting is a value as JSON text that is not from the object.
type Setting = schema.Value

// KeyError reports an invalid value.
type KeyError = schema.KeyError

func refuseValue(key, value, want string) error {
	return &KeyError{Key: key, Value: value, Rule: "must be " + want}
}

func requireOther(key, value, other string) error {
	return &KeyError{Key: key, Value: value, Rule: "requires " + other}
}

// Parse parses the JSON object of engine arguments; an empty text is an empty object. If a key occurs twice, the last
// value counts.
func Parse(text []byte, o Options) (Args, error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	values, err := schema.ReadObject(text)
	if err != nil {
		return Args{}, err
	}
	for _, s := range o.Set {
		if err := values.Put(s); err != nil {
			return Args{}, err
		}
	}
	for _, s := range o.Unless {
		if values.Gives(s.Key) {
			continue
		}
		if err := values.Put(s); err != nil {
			return Args{}, err
		}
	}
	if err := checkRole(values); err != nil {
		return Args{}, err
	}
	known := Keys()
	if keys := values.Unknown(known); len(keys) > 0 {
		return Args{}, excerpt.Errorf("unknown keys: %s; the keys are %s%s",
			excerpt.Cut(strings.Join(keys, ", ")), strings.Join(known, ", "), nearest.Ask(keys[0], known))
	}
	a := Args{}
	err = schema.Read(values, o.Compat, func(d *schema.Decl) { a.declare(d, &o) })
	if err == nil {
		err = a.check(&o)
	}
	if err != nil {
		return Args{}, err
	}
	return a, nil
}

// Gives reports whether the text or a setting has a value for a key.
func Gives(text []byte, set []Setting, key string) bool {
	values, err := schema.ReadObject(text)
	return err == nil && values.Gives(key) || slices.ContainsFunc(set, func(s Setting) bool { return s.Key == key })
}

// Load returns the text of an argument: the argument itself, or the contents of a file for @file.
func Load(argument string) ([]byte, error) {
	path, isFile := strings.CutPrefix(argument, "@")
	if !isFile {
		return []byte(argument), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const limit = 1 << 20
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, limit)
	}
	return text, nil
}

// checkRole does the checks that precede all other keys.
func checkRole(o schema.Values) error {
	if string(o["worker_type"]) == "null" {
		delete(o, "worker_type")
	}
	role, given := o["worker_type"]
	if !given {
		return nil
	}
	for _, key := range []string{"is_prefill", "is_decode"} {
		if value, ok := o[key]; ok {
			return &KeyError{Key: key, Value: excerpt.CutLine(value), Rule: "not supported with worker_type"}
		}
	}
	switch string(role) {
	case `"aggregated"`, `"prefill"`, `"decode"`:
		return nil
	}
	return refuseValue("worker_type", excerpt.CutLine(role), `"aggregated", "prefill" or "decode"`)
}

// maxBlocks limits block numbers to 31 bits.
const maxBlocks = math.MaxInt32

// check sets the block size and rejects inconsistent arguments.
func (a *Args) check(o *Options) error {
	if a.Blocks > maxBlocks {
		return refuseValue("num_gpu_blocks", strconv.Itoa(a.Blocks), fmt.Sprintf("at most %d", maxBlocks))
	}
	if a.Engine == SGLang {
		return a.checkSGLang(o.Compat)
	}
	if a.Engine == TRTLLM {
		return a.checkTRTLLM(o.Incomplete)
	}
	if a.BlockTokens == 0 {
		a.BlockTokens = 64
	}
	if err := a.checkOffload(o.Incomplete); err != nil {
		return err
	}
	if a.PrefillInterval > 1 && a.DPSize > 1 {
		return refuseValue("prefill_schedule_interval", strconv.Itoa(a.PrefillInterval), "1 with dp_size, as vLLM counts it over all ranks of experts, which is not simulated")
	}
	return a.checkWindows()
}

func (a *Args) checkSGLang(compat bool) error {
	s := &a.SGLang
	switch {
	case s.PageGiven && s.PageTokens == 0 && a.BlockTokens == 0:
		return refuseValue("sglang.page_size", "0", "at least 1")
	case s.PageTokens > 0 && a.BlockTokens > 0 && s.PageTokens != a.BlockTokens:
		return refuseValue("sglang.page_size", strconv.Itoa(s.PageTokens), fmt.Sprintf("block_size, which is %d", a.BlockTokens))
	}
	a.BlockTokens = max(a.BlockTokens, s.PageTokens, 1)
	if n := s.ContextLength; n > 0 && a.MaxLength > 0 && n != a.MaxLength {
		return refuseValue("sglang.context_length", strconv.Itoa(n), fmt.Sprintf("max_model_len, which is %d", a.MaxLength))
	}
	a.MaxLength = max(a.MaxLength, s.ContextLength)
	if a.Speculative != nil && a.DPSize > 1 {
		return refuseValue("dp_size", strconv.Itoa(a.DPSize), "1 with speculative_algorithm, which was not held against SGLang's ranks")
	}
	if s.DecodeInterval > 0 && a.DPSize > 1 {
		return refuseValue("sglang.prefill_decode_interval", strconv.Itoa(s.DecodeInterval), "0 with dp_size, as SGLang counts it over all ranks, which is not simulated")
	}
	if a.Speculative != nil && s.PoolWindow() > 0 {
		return refuseValue("sglang.sliding_window_size", strconv.Itoa(s.Window), "none with speculative_algorithm, which was not held against SGLang's two pools; with disable_hybrid_swa_memory there is one")
	}
	if s.ChunkGiven && s.ChunkTokens%a.BlockTokens != 0 {
		return refuseValue("sglang.chunked_prefill_size", strconv.Itoa(s.ChunkTokens),
			fmt.Sprintf("a multiple of block_size, which is %d", a.BlockTokens))
	}
	return a.checkBudgets(compat)
}

// checkBudgets rejects engines that could never admit a request. The reference runs such engines forever.
func (a *Args) checkBudgets(compat bool) error {
	s := &a.SGLang
	page := fmt.Sprintf("at least block_size, which is %d", a.BlockTokens)
	switch {
	case s.MaxPrefillTokens == 0:
		return refuseValue("sglang.max_prefill_tokens", "0", "at least 1")
	case s.ChunkTokens < a.BlockTokens:
		return refuseValue("sglang.chunked_prefill_size", strconv.Itoa(s.ChunkTokens), page)
	case compat && s.MaxPrefillTokens < a.BlockTokens:
		return refuseValue("sglang.max_prefill_tokens", strconv.Itoa(s.MaxPrefillTokens), page)
	case !compat && s.Conservativeness < 0:
		return refuseValue("sglang.schedule_conservativeness", strconv.FormatFloat(s.Conservativeness, 'g', -1, 64), "at least 0")
	case a.BlockTokens > math.MaxInt32/2 || a.Blocks > math.MaxInt/a.BlockTokens:
		return refuseValue("block_size", strconv.Itoa(a.BlockTokens), "at most 1073741823")
	}
	return nil
}
