package engineargs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// Speculative is how vLLM engines decode speculatively.
type Speculative struct {
	vllm.Speculation
	Name      string // of the method, as vLLM has it
	Model     string // of the drafter; "": not named
	SeedGiven bool   // acceptance_seed was written
	// Of no effect but that vLLM refuses some.
	LookupMin, LookupMax int // prompt_lookup_min and prompt_lookup_max, of ngram; 0: not given
	MaxLength            int // max_model_len, of the drafter; 0: not given
	// A draft of all requests together takes Ms and Share of the pass without drafts.
	// Unless TimeGiven both are what is usual with the method.
	Ms, Share float64
	TimeGiven bool
}

// medusa is a method that vLLM has had up to 0.32.
const medusa = "medusa"

// maxDrafts bounds num_speculative_tokens.
const maxDrafts = 64

// readSpeculative reads vLLM's own keys, of which those about the drafter's weights and
// kernels have no effect, and ours: acceptance_rate, acceptance_seed, draft_ms and
// draft_share.
func (r *reader) readSpeculative(a *Args) {
	if a.Engine == SGLang {
		r.readDrafts(a)
		return
	}
	m := r.openObject("speculative_config")
	if m == nil {
		return
	}
	s := &Speculative{Name: "draft_model"}
	var number int
	var text string
	m.readMethod(s)
	if m.count("num_speculative_tokens", &s.Tokens); s.Tokens == 0 {
		m.fail("num_speculative_tokens", "missing", "the number of drafts per request and pass")
	} else if s.Tokens > maxDrafts {
		m.fail("num_speculative_tokens", strconv.Itoa(s.Tokens), fmt.Sprintf("at most %d", maxDrafts))
	}
	m.text("model", &s.Model)
	m.readLaw(s)
	m.size("prompt_lookup_max", &s.LookupMax)
	m.size("prompt_lookup_min", &s.LookupMin)
	m.size("draft_tensor_parallel_size", &number)
	m.size("max_model_len", &s.MaxLength)
	for _, key := range []string{"rejection_sample_method", "draft_sample_method", "quantization", "revision"} {
		m.text(key, &text)
	}
	m.refuseOthers()
	if r.err = m.err; r.err == nil {
		a.Speculative = s
	}
}

// readLaw reads what is ours: how many drafts are accepted, and what they take.
func (m *reader) readLaw(s *Speculative) {
	m.readAcceptance(s)
	seed := 0
	s.SeedGiven = m.size("acceptance_seed", &seed)
	s.Seed = uint64(seed)
	m.ratio("draft_ms", &s.Ms)
	m.ratio("draft_share", &s.Share)
	s.TimeGiven = m.values["draft_ms"] != nil || m.values["draft_share"] != nil
}

// refuseOthers refuses keys that were not asked for.
func (m *reader) refuseOthers() {
	if keys := m.values.unknownKeys(m.asked); len(keys) > 0 {
		m.fail(keys[0], excerpt.CutLine(m.values[keys[0]]), "one of "+strings.Join(m.asked, ", ")+nearest.Ask(keys[0], m.asked))
	}
}

func (r *reader) readMethod(s *Speculative) {
	var names []string
	for _, m := range vllm.Methods() {
		names = append(names, m.Name)
	}
	if name := r.choice("method", names...); name != "" {
		s.Name = name
	}
	s.Method = vllm.FindMethod(s.Name).Kind
}

// readAsync sets whether passes overlap where an engine decodes speculatively, as the release
// has it with the method, unless m, the rules that are given, says so.
func (r *reader) readAsync(a *Args, m *reader) {
	if a.Speculative == nil || a.Rules.Reference() && m == nil {
		return
	}
	given := ""
	if m != nil {
		given = string(m.values["two_in_flight"])
	}
	method := vllm.FindMethod(a.Speculative.Name)
	does, can := method.Asynchronous(a.Profile)
	switch {
	case given == "true" && !can:
		m.fail("two_in_flight", given, "false with method "+method.Name+", with which this release schedules synchronously")
		r.err = m.err
	case given == "" || given == "null":
		a.Rules.TwoInFlight = a.Rules.TwoInFlight && does
	}
}

// readAcceptance reads how many drafts are accepted: by position, as a mean, or a rate
// for all positions.
func (r *reader) readAcceptance(s *Speculative) {
	var given []string
	for _, key := range []string{"synthetic_acceptance_rates", "synthetic_acceptance_length", "acceptance_rate"} {
		if text := r.raw(key); text != nil && string(text) != "null" {
			given = append(given, key)
		}
	}
	switch {
	case r.err != nil:
	case len(given) == 0:
		r.fail("acceptance_rate", "missing", "how many drafts are accepted: acceptance_rate, synthetic_acceptance_rates or synthetic_acceptance_length")
	case len(given) > 1:
		r.fail(given[1], excerpt.CutLine(r.values[given[1]]), "none beside "+given[0])
	case given[0] == "synthetic_acceptance_rates":
		r.readRates(s)
	case given[0] == "synthetic_acceptance_length":
		r.readLength(s)
	default:
		r.readRate(s)
	}
}

// numbers reads a list of numbers from 0 to 1, of at most most; a single one is a list.
func (r *reader) numbers(key, want string, most int) []float64 {
	list := make([]float64, 1)
	text := r.values[key]
	err := json.Unmarshal(text, &list[0])
	if err != nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) == 0 || len(list) > most || slices.ContainsFunc(list, func(x float64) bool { return x < 0 || x > 1 }) {
		r.fail(key, excerpt.CutLine(text), want)
		return nil
	}
	return list
}

// readRates reads the share of drafts accepted with all before them, by position.
func (r *reader) readRates(s *Speculative) {
	const key = "synthetic_acceptance_rates"
	want := fmt.Sprintf("a list of %d numbers from 0 to 1, none greater than the one before it", s.Tokens)
	list := r.numbers(key, want, s.Tokens)
	before := 1.0
	for _, x := range list {
		if x > before || len(list) != s.Tokens {
			r.fail(key, excerpt.CutLine(r.values[key]), want)
			return
		}
		rate := 0.0
		if before > 0 {
			rate = x / before
		}
		s.Rates = append(s.Rates, rate)
		before = x
	}
}

// readLength reads the mean number of tokens gained per pass, the model's own among them:
// as many drafts as that always are accepted, one now and then, and none after it.
func (r *reader) readLength(s *Speculative) {
	const key = "synthetic_acceptance_length"
	length := 0.0
	if r.number(key, &length); r.err == nil && !(length >= 1 && length <= float64(s.Tokens+1)) {
		r.fail(key, excerpt.CutLine(r.values[key]), fmt.Sprintf("a number from 1 to %d", s.Tokens+1))
	}
	for i := range s.Tokens {
		s.Rates = append(s.Rates, max(0, min(1, length-1-float64(i))))
	}
}

// readRate reads the rate of each draft whose predecessors were accepted: a number, or
// the range from which each request draws its own.
func (r *reader) readRate(s *Speculative) {
	const key, want = "acceptance_rate", "a number from 0 to 1, or two of them in order: the range from which each request draws its own"
	list := r.numbers(key, want, 2)
	if len(list) == 0 {
		return
	}
	if s.Low, s.High = list[0], list[len(list)-1]; s.Low > s.High {
		r.fail(key, excerpt.CutLine(r.values[key]), want)
	}
}

// checkSpeculative refuses what is not known to be done together with drafts.
func (r *reader) checkSpeculative(a *Args) {
	x := &a.Rules
	text := excerpt.CutLine(r.values["speculative_config"])
	switch {
	case a.Speculative == nil:
	case !x.MixedStep || !x.BudgetGate || !x.RecomputeLast || !x.AdmitIdle || !x.WholeAllocation || !x.LastVictim || !x.FirstTokenFree:
		r.fail("speculative_config", text, "scheduler_rules with it in which mixed_step, budget_gate, recompute_last, admit_idle, whole_allocation, last_victim and first_token_free are on")
	case a.Windows.Given():
		r.fail("speculative_config", text, "no sliding_window with it; with disable_hybrid_kv_cache_manager layers with windows are like others")
	case a.G2.Blocks > 0:
		r.fail("speculative_config", text, "no num_g2_blocks with it")
	}
}
