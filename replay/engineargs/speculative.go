package engineargs

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/schema"
)

// Speculative is the speculative decoding of vLLM engines.
type Speculative struct {
	vllm.Speculation
	Name      string // name of the method in vLLM
	Model     string // name of the drafter; "": not given
	SeedGiven bool   // acceptance_seed was given
	// The following fields have no effect, except that vLLM rejects some values.
	LookupMin, LookupMax int // prompt_lookup_min and prompt_lookup_max, for ngram; 0: not given
	MaxLength            int // max_model_len, of the drafter; 0: not given
	// Ms and Share are the time of a draft of all requests together, in ms plus a share of the pass without drafts.
	// Without TimeGiven, Ms and Share are defaults of the method.
	Ms, Share float64
	TimeGiven bool
}

// medusa is a method of vLLM up to 0.32.
const medusa = "medusa"

// maxDrafts is the limit of num_speculative_tokens.
const maxDrafts = 64

// declareSpeculative declares vLLM's keys, and the keys acceptance_rate, acceptance_seed, draft_ms and draft_share of
// this program. vLLM's keys about the drafter's weights and kernels have no effect.
func (a *Args) declareSpeculative(d *schema.Decl) {
	row := schema.Row{
		Key: "speculative_config", Default: "no drafts", Help: "speculative decoding: vLLM's `JSON` object, plus the acceptance rate; for sglang only the rate", After: "scheduling-policy",
		Doc: schema.Doc{Default: "none", Text: "speculative decoding, an object. Requires vLLM's own rules (docs/hardware.md#speculative-decoding)", Part: "vLLM"},
	}
	if a.Engine == SGLang {
		a.declareDrafts(d, row)
		return
	}
	d.Members(row, func(m *schema.Decl) {
		s := &Speculative{Name: "draft_model"}
		var number int
		var text string
		s.declareMethod(m)
		if m.Count(&s.Tokens, schema.Row{
			Key: "num_speculative_tokens", Default: "no drafts", Help: "speculative decoding: number of `drafts` per request and pass", Only: "vllm",
			Doc: schema.Doc{Unit: "tokens", Default: "required", Text: "number of drafts per request and pass, 1 to 64"},
		}); s.Tokens == 0 {
			m.Fail("num_speculative_tokens", "missing", "the number of drafts per request and pass")
		} else if s.Tokens > maxDrafts {
			m.Fail("num_speculative_tokens", strconv.Itoa(s.Tokens), fmt.Sprintf("at most %d", maxDrafts))
		}
		m.String(&s.Model, schema.Row{
			Key: "model",
			Doc: schema.Doc{Text: "path or name of the draft model"},
		})
		s.declareLaw(m)
		m.Size(&s.LookupMax, schema.Row{
			Key: "prompt_lookup_max",
			Doc: schema.Doc{Unit: "tokens", Default: "-", Text: "maximum number of tokens that method ngram looks up in the prompt", Part: schema.NoEffect},
		})
		m.Size(&s.LookupMin, schema.Row{
			Key: "prompt_lookup_min",
			Doc: schema.Doc{Unit: "tokens", Default: "-", Text: "minimum number of tokens that method ngram looks up in the prompt", Part: schema.NoEffect},
		})
		m.Size(&number, schema.Row{
			Key: "draft_tensor_parallel_size",
			Doc: schema.Doc{Unit: "GPUs", Default: "-", Text: "tensor parallelism of the draft model", Part: schema.NoEffect},
		})
		m.Size(&s.MaxLength, schema.Row{
			Key: "max_model_len",
			Doc: schema.Doc{Unit: "tokens", Default: "-", Text: "maximum sequence length of the draft model", Part: schema.NoEffect},
		})
		for _, ignored := range [][2]string{
			{"rejection_sample_method", "sampling method that accepts drafts"},
			{"draft_sample_method", "sampling method of the draft model"},
			{"quantization", "data type of the weights of the draft model"},
			{"revision", "revision of the draft model"},
		} {
			m.String(&text, schema.Row{
				Key: ignored[0],
				Doc: schema.Doc{Text: ignored[1], Part: schema.NoEffect},
			})
		}
		m.RefuseOthers()
		if m.OK() {
			a.Speculative = s
		}
	})
}

// declareDrafts declares the members of speculative_config for SGLang engines: acceptance and time of drafts.
func (a *Args) declareDrafts(d *schema.Decl, row schema.Row) {
	drafts := &a.SGLang.Drafts
	declare := d.Group
	if drafts.Name == "" {
		declare = d.Members
	}
	declare(row, func(m *schema.Decl) {
		if drafts.Name == "" {
			d.Require("speculative_config", "sglang.speculative_algorithm on an engine of type sglang")
			return
		}
		s := &Speculative{Name: drafts.Name, Model: drafts.Model}
		s.Method, s.Tokens = drafts.Algorithm, drafts.Depth()
		s.declareLaw(m)
		m.RefuseOthers()
		if m.OK() {
			a.Speculative = s
		}
	})
}

// declareLaw declares the members that vLLM does not have: acceptance and time of drafts.
func (s *Speculative) declareLaw(m *schema.Decl) {
	s.declareAcceptance(m)
	seed := 0
	s.SeedGiven = m.Size(&seed, schema.Row{
		Key: "acceptance_seed",
		Doc: schema.Doc{Default: "the run's seed", Text: "seed of the random draws of accepted drafts"},
	})
	s.Seed = uint64(seed)
	m.Ratio(&s.Ms, schema.Row{
		Key: "draft_ms",
		Doc: schema.Doc{Unit: "ms", Default: "by method", Text: "time that one draft of all requests of a pass takes"},
	})
	m.Ratio(&s.Share, schema.Row{
		Key: "draft_share",
		Doc: schema.Doc{Unit: "share", Default: "by method", Text: "time that one draft of all requests of a pass takes, as a share of the pass without drafts; added to `draft_ms`"},
	})
	s.TimeGiven = m.Has("draft_ms") || m.Has("draft_share")
}

func (s *Speculative) declareMethod(m *schema.Decl) {
	row := schema.Row{
		Key: "method",
		Doc: schema.Doc{Default: "draft_model", Text: "method of drafting: eagle, eagle3, mtp, draft_model, ngram, ngram_gpu, suffix or, before vllm-0.33, medusa. The release and the method decide whether passes overlap (docs/rules/vllm.md#speculative-decoding)"},
	}
	for _, method := range releases.Methods() {
		row.Names = append(row.Names, method.Name)
	}
	if name := m.Name(row); name != "" {
		s.Name = name
	}
	s.Method = releases.FindMethod(s.Name).Kind
}

// setAsync sets whether passes overlap with speculative decoding. The default is that of the release for the method.
// m, the given rules, overrides it.
func (a *Args) setAsync(m *schema.Decl) {
	if a.Speculative == nil {
		return
	}
	given := m.Raw("two_in_flight")
	method := releases.FindMethod(a.Speculative.Name)
	does, can := method.Asynchronous(a.Profile)
	switch {
	case given == "true" && !can:
		m.Fail("two_in_flight", given, "false with method "+method.Name+", with which this release schedules synchronously")
	case given == "" || given == "null":
		a.Rules.TwoInFlight = a.Rules.TwoInFlight && does
	}
}

// declareAcceptance declares the acceptance of drafts: by position, as a mean, or a rate for all positions.
func (s *Speculative) declareAcceptance(m *schema.Decl) {
	var given []string
	for _, row := range []schema.Row{
		schema.Row{
			Key: "synthetic_acceptance_rates",
			Doc: schema.Doc{Unit: "shares", Text: "acceptance rates by position, instead of `acceptance_rate`: each is the rate at which a draft and all drafts before it are accepted, as in vLLM's log"},
		},
		schema.Row{
			Key: "synthetic_acceptance_length",
			Doc: schema.Doc{Unit: "tokens", Text: "mean number of tokens that a request gains per pass, instead of `acceptance_rate`: 1 to `num_speculative_tokens` + 1"},
		},
		schema.Row{
			Key: "acceptance_rate", Default: "none", Help: "speculative decoding: acceptance `rate` of a draft if all drafts before it are accepted, 0 to 1; 0.5..0.9: each request draws a rate from this range", Kind: schema.Range,
			Doc: schema.Doc{Unit: "share", Default: "-", Text: "acceptance rate of a draft if all drafts before it are accepted; [0.5, 0.9] (flag: 0.5..0.9): each request draws a rate from this range"},
		},
	} {
		if text := m.Any(row); text != "" && text != "null" {
			given = append(given, row.Key)
		}
	}
	switch {
	case !m.OK():
	case len(given) == 0:
		m.Fail("acceptance_rate", "missing", "how many drafts are accepted: acceptance_rate, synthetic_acceptance_rates or synthetic_acceptance_length")
	case len(given) > 1:
		m.FailRule(given[1], excerpt.CutLine(m.Raw(given[1])), "not supported with "+given[0])
	case given[0] == "synthetic_acceptance_rates":
		s.readRates(m)
	case given[0] == "synthetic_acceptance_length":
		s.readLength(m)
	default:
		s.readRate(m)
	}
}

// readRates parses the share of accepted drafts by position, given that all earlier drafts are accepted.
func (s *Speculative) readRates(m *schema.Decl) {
	const key = "synthetic_acceptance_rates"
	want := fmt.Sprintf("a list of %d numbers from 0 to 1, none greater than the one before it", s.Tokens)
	list := m.Numbers(key, want, s.Tokens)
	before := 1.0
	for _, x := range list {
		if x > before || len(list) != s.Tokens {
			m.FailText(key, want)
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

// readLength parses the mean number of tokens per pass, including the token of the model itself. The first drafts are
// always accepted, the next draft sometimes, and later drafts never.
func (s *Speculative) readLength(m *schema.Decl) {
	const key = "synthetic_acceptance_length"
	length := 0.0
	if m.Number(&length, schema.Row{Key: key}); m.OK() && !(length >= 1 && length <= float64(s.Tokens+1)) {
		m.FailText(key, fmt.Sprintf("a number from 1 to %d", s.Tokens+1))
	}
	for i := range s.Tokens {
		s.Rates = append(s.Rates, max(0, min(1, length-1-float64(i))))
	}
}

// readRate parses the acceptance rate of a draft after accepted drafts. The rate is a number, or a range from which
// each request draws a rate.
func (s *Speculative) readRate(m *schema.Decl) {
	const key, want = "acceptance_rate", "a number from 0 to 1, or two of them in order: the range from which each request draws its own"
	list := m.Numbers(key, want, 2)
	if len(list) == 0 {
		return
	}
	if s.Low, s.High = list[0], list[len(list)-1]; s.Low > s.High {
		m.FailText(key, want)
	}
}

// checkSpeculative rejects settings that are not supported together with drafts.
func (a *Args) checkSpeculative(d *schema.Decl) {
	x := &a.Rules
	text := excerpt.CutLine(d.Raw("speculative_config"))
	switch {
	case a.Speculative == nil:
	case !x.MixedStep || !x.BudgetGate || !x.RecomputeLast || !x.AdmitIdle || !x.WholeAllocation || !x.LastVictim || !x.FirstTokenFree:
		d.Require("speculative_config", "scheduler_rules in which mixed_step, budget_gate, recompute_last, admit_idle, whole_allocation, last_victim and first_token_free are on")
	case a.Windows.Given():
		d.FailRule("speculative_config", text, "not supported with sliding_window; with disable_hybrid_kv_cache_manager layers with windows are like other layers")
	case a.G2.Asked():
		key, _ := a.G2.Key()
		d.FailRule("speculative_config", text, "not supported with "+key)
	}
}
