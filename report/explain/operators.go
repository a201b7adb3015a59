package explain

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Operators divides a time of a request's ledger among the operators of its passes. The operators are those of a pass
// of the mean size, scaled to the time of the ledger.
type Operators struct {
	Of       string            `json:"of"`       // part of the ledger: own prefill or decode
	Passes   int               `json:"passes"`   // number of passes; 0: not counted
	Requests int               `json:"requests"` // in the mean pass
	Tokens   int               `json:"tokens"`   // per request: computed tokens (prefill), or tokens in its KV cache (decode)
	Past     int               `json:"past"`     // per request: tokens in its KV cache before the pass (prefill)
	Ms       float64           `json:"ms"`
	Parts    []timing.PassPart `json:"parts"` // the largest first; calls are of one pass
}

// OperatorsOf returns the operators of the passes of a request. OperatorsOf returns no operators if pass times are
// not by measured operators, if drafts take a part of the pass time, or if prompts were not recorded.
func (r *Run) OperatorsOf(id int) ([]Operators, error) {
	row := &r.Rows[id]
	if r.Log == nil || !row.Finished() || !row.Explained() {
		return nil, nil
	}
	prefill, decode := r.stagesOf(row)
	prompt, generation := r.meanPrompt(id), r.meanDecode(id)
	prompt.Ms = float64(row.Parts[ledger.Prefill])
	generation.Ms = float64(row.Parts[ledger.Alone] + row.Parts[ledger.Stretched])
	var all []Operators
	for _, o := range []struct {
		Operators
		times timing.Source
	}{{prompt, r.Times[prefill]}, {generation, r.Times[decode]}} {
		if o.times.Form() != timing.Operators || o.Requests == 0 || o.Ms == 0 {
			continue
		}
		c, err := o.times.Compose()
		if err != nil {
			return nil, err
		}
		if o.Of == decodeName {
			o.divide(c.Decode(o.Requests, o.Tokens))
		} else {
			o.divide(c.Prompts(o.Requests, o.Tokens, o.Past))
		}
		all = append(all, o.Operators)
	}
	return all, nil
}

const decodeName = "decode"

// stagesOf returns the keys of Times for the workers of a request.
func (r *Run) stagesOf(row *requests.Row) (prefill, decode string) {
	if row.PrefillWorker.Known() {
		return "prefill", "decode"
	}
	if kind := r.kindOf(row); kind != "" {
		return kind, kind
	}
	return "aggregated", "aggregated"
}

// meanPrompt returns the mean pass that computed the prompt of a request.
func (r *Run) meanPrompt(id int) Operators {
	o := Operators{Of: ledger.Prefill.String()}
	work := r.Log.Work
	prompts, tokens, own := 0, 0, 0
	for first := 0; first < len(work); {
		last, mine := first, false
		for ; last < len(work) && samePass(&work[first], &work[last]); last++ {
			if int(work[last].Request) == id {
				mine, own = true, own+int(work[last].Tokens)
			}
		}
		if mine {
			o.Passes++
			prompts, tokens = prompts+last-first, tokens+int(work[first].All)
		}
		first = last
	}
	if prompts == 0 || tokens == 0 {
		return o
	}
	o.Requests, o.Tokens = divideRounded(prompts, o.Passes), max(divideRounded(tokens, prompts), 1)
	// On average, half of the other prompt tokens were computed before a chunk, in addition to the reused tokens.
	o.Past = r.Rows[id].Reused + (own-divideRounded(own, o.Passes))/2
	return o
}

// meanDecode returns the mean pass in which a request decoded.
func (r *Run) meanDecode(id int) Operators {
	o := Operators{Of: decodeName, Passes: max(r.Rows[id].Tokens-1, 0)}
	mine := spansOf(&r.Rows[id]).decoding
	length := mine.to - mine.from
	if length <= 0 {
		return o
	}
	mates, held := 0.0, 0.0
	for i := range r.Rows {
		x := &r.Rows[i]
		if !x.Counted() {
			continue
		}
		theirs := spansOf(x).decoding
		share := mine.overlapWith(theirs) / length
		mates += share
		held += share * heldAt(x, theirs, (max(mine.from, theirs.from)+min(mine.to, theirs.to))/2)
	}
	if mates == 0 {
		return o
	}
	o.Requests = max(int(mates+0.5), 1)
	o.Tokens = max(int(held/mates+0.5), 1)
	return o
}

// heldAt returns the number of tokens in the KV cache of a request at a time of its decoding.
func heldAt(row *requests.Row, decoding span, at float64) float64 {
	done := 0.0
	if decoding.to > decoding.from {
		done = (at - decoding.from) / (decoding.to - decoding.from)
	}
	return float64(row.Input) + float64(row.Tokens)*done
}

// divideRounded returns a/b, rounded.
func divideRounded(a, b int) int { return (a + b/2) / b }

// divide divides the time among the parts of a pass. divide joins parts with the same name and source.
func (o *Operators) divide(parts []timing.PassPart) {
	pass := 0.0
	for _, p := range parts {
		pass += p.Ms
		same := func(x timing.PassPart) bool { return x.Name == p.Name && x.Source == p.Source }
		if i := slices.IndexFunc(o.Parts, same); i >= 0 {
			o.Parts[i].Ms += p.Ms
			o.Parts[i].Calls += p.Calls
			continue
		}
		o.Parts = append(o.Parts, p)
	}
	for i := range o.Parts {
		o.Parts[i].Ms *= o.Ms / pass
	}
	sort.SliceStable(o.Parts, func(i, j int) bool { return cmp.Compare(o.Parts[j].Ms, o.Parts[i].Ms) < 0 })
}

// countThings returns a count with its noun, in words.
func countThings(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// write writes the parts of at least 2 % of the time, and the sum of all other parts.
func (o *Operators) write(out *bufio.Writer) {
	const least = 0.02
	mean := fmt.Sprintf("%s of %d tokens", countThings(o.Requests, "request"), o.Tokens)
	if o.Of != decodeName {
		mean = fmt.Sprintf("%d tokens of %s, after %d", o.Requests*o.Tokens, countThings(o.Requests, "prompt"), o.Past)
	}
	title := fmt.Sprintf("%s by operator: %s, on average with %s", o.Of, countThings(o.Passes, "pass"), mean)
	fmt.Fprint(out, "\n"+terminal.WrapText(title, 2))
	fmt.Fprintf(out, "%-32s %14s %8s  %s\n", "", "ms", "share", "source")
	rest, others := 0.0, 0
	for _, p := range o.Parts {
		if p.Ms < least*o.Ms {
			rest, others = rest+p.Ms, others+1
			continue
		}
		fmt.Fprintf(out, "%-32s %14.3f %6.1f %%  %s\n", p.Name, p.Ms, 100*p.Ms/o.Ms, p.Source)
	}
	if others > 0 {
		fmt.Fprintf(out, "%-32s %14.3f %6.1f %%\n", countThings(others, "other"), rest, 100*rest/o.Ms)
	}
}
