package requests

import "github.com/replay-llm/replay/report/ledger"

// Column is one column of the file.
type Column struct {
	Name string
	Kind Kind
	// Required reports whether no row is without a value.
	Required bool
	// Meaning is a sentence for people, with the unit.
	Meaning string

	repeats bool // many values in a row are the same, so that packing them pays

	// One of them is there, and says where the value is.
	number  func(*Row) *int
	count   func(*Row) *Count
	time    func(*Row) *MS
	text    func(*Row) *string
	verdict func(*Row) *Verdict
}

func numberColumn(name, meaning string, at func(*Row) *int) Column {
	return Column{Name: name, Kind: Int, Required: true, Meaning: meaning, number: at}
}

func countColumn(name, meaning string, at func(*Row) *Count) Column {
	return Column{Name: name, Kind: Int, Meaning: meaning, count: at}
}

func timeColumn(name, meaning string, at func(*Row) *MS) Column {
	return Column{Name: name, Kind: Float, Meaning: meaning, time: at}
}

func textColumn(name, meaning string, at func(*Row) *string) Column {
	return Column{Name: name, Kind: Text, Meaning: meaning, text: at}
}

func verdictColumn(name, meaning string, at func(*Row) *Verdict) Column {
	return Column{Name: name, Kind: Bool, Meaning: meaning, verdict: at}
}

// requiredTimeColumn is a column of times without which there is no row.
func requiredTimeColumn(c Column) Column {
	c.Required = true
	return c
}

// repeatingTimeColumn is a column of times of which many are the same.
func repeatingTimeColumn(c Column) Column {
	c.repeats = true
	return c
}

// Kind is the type of a column's values.
type Kind uint8

const (
	Int Kind = iota
	Float
	Text
	Bool
)

func (k Kind) String() string { return [...]string{"int64", "double", "string", "boolean"}[k] }

// Columns are the columns of the file, in order.
func Columns() []Column {
	columns := append(identityColumns(), instantColumns()...)
	columns = append(columns, spanColumns()...)
	columns = append(columns, ledgerParts()...)
	columns = append(columns, decisionColumns()...)
	return columns
}

func identityColumns() []Column {
	return []Column{
		numberColumn("id", "place in the order of arrivals, from 0", func(r *Row) *int { return &r.ID }),
		textColumn("session", "the session as the trace names it, or its number", func(r *Row) *string { return &r.Session }),
		numberColumn("turn", "index in the session, from 0", func(r *Row) *int { return &r.Turn }),
		countColumn("line", "line of the trace file, from 1", func(r *Row) *Count { return &r.Line }),
		countColumn("worker", "worker that decoded it", func(r *Row) *Count { return &r.Worker }),
		countColumn("prefill_worker", "worker of the prefill stage", func(r *Row) *Count { return &r.PrefillWorker }),
		numberColumn("input_tokens", "prompt tokens", func(r *Row) *int { return &r.Input }),
		numberColumn("output_tokens", "answer tokens asked for", func(r *Row) *int { return &r.Output }),
		numberColumn("generated_tokens", "answer tokens gained", func(r *Row) *int { return &r.Tokens }),
		numberColumn("reused_tokens", "prompt tokens found in a cache, the most of any admission", func(r *Row) *int { return &r.Reused }),
	}
}

func instantColumns() []Column {
	return []Column{
		requiredTimeColumn(repeatingTimeColumn(timeColumn("arrival_ms", "instant of arrival", func(r *Row) *MS { return &r.Arrival }))),
		repeatingTimeColumn(timeColumn("routed_ms", "instant at which the router placed it", func(r *Row) *MS { return &r.Routed })),
		repeatingTimeColumn(timeColumn("admit_ms", "instant of the first admission to an engine", func(r *Row) *MS { return &r.Admit })),
		timeColumn("first_token_ms", "instant of the first token", func(r *Row) *MS { return &r.First }),
		timeColumn("second_token_ms", "instant of the second token", func(r *Row) *MS { return &r.Second }),
		timeColumn("last_token_ms", "instant of the last token", func(r *Row) *MS { return &r.Last }),
		timeColumn("prefill_end_ms", "instant at which the KV cache leaves the prefill worker", func(r *Row) *MS { return &r.PrefillEnd }),
		timeColumn("decode_start_ms", "instant at which the KV cache has reached the decode stage", func(r *Row) *MS { return &r.DecodeStart }),
		timeColumn("decode_admit_ms", "instant of the first admission to a decode engine", func(r *Row) *MS { return &r.DecodeAdmit }),
	}
}

func spanColumns() []Column {
	return []Column{
		repeatingTimeColumn(timeColumn("queue_ms", "arrival to admission", func(r *Row) *MS { return &r.Queue })),
		timeColumn("prefill_ms", "admission to first token; with a prefill stage, to the end of the prompt there", func(r *Row) *MS { return &r.Prefill }),
		timeColumn("transfer_ms", "time the KV cache takes from the prefill worker to the decode stage", func(r *Row) *MS { return &r.Transfer }),
		timeColumn("ttft_ms", "arrival to first token", func(r *Row) *MS { return &r.TTFT }),
		repeatingTimeColumn(timeColumn("ttst_ms", "first to second token", func(r *Row) *MS { return &r.TTST })),
		timeColumn("tpot_ms", "mean time per token after the first", func(r *Row) *MS { return &r.TPOT }),
		timeColumn("itl_mean_ms", "mean time between two tokens, the same number as tpot_ms", func(r *Row) *MS { return &r.ITLMean }),
		repeatingTimeColumn(timeColumn("itl_max_ms", "longest time between two tokens", func(r *Row) *MS { return &r.ITLMax })),
		timeColumn("e2e_ms", "arrival to last token", func(r *Row) *MS { return &r.E2E }),
		countColumn("preemptions", "times it lost its place in an engine", func(r *Row) *Count { return &r.Preemptions }),
	}
}

// ledgerParts are the uses of a request's time, which sum to e2e_ms.
func ledgerParts() []Column {
	columns := make([]Column, 0, len(ledger.Parts()))
	for _, p := range ledger.Parts() {
		c := timeColumn("in_"+p.Key()+"_ms", "part of e2e_ms (docs/explain.md): "+p.String(), func(r *Row) *MS { return &r.Parts[p] })
		c.repeats = p != ledger.Prefill && p != ledger.Alone && p != ledger.Stretched // often 0
		columns = append(columns, c)
	}
	return columns
}

func decisionColumns() []Column {
	return []Column{
		countColumn("prompt_blocks", "blocks of the prompt, as the KV router counts", func(r *Row) *Count { return &r.PromptBlocks }),
		countColumn("overlap_blocks", "blocks of it the KV router saw cached on the chosen worker", func(r *Row) *Count { return &r.Overlap }),
		timeColumn("cost_blocks", "cost of the chosen worker", func(r *Row) *MS { return &r.Cost }),
		countColumn("runner_up", "the cheapest other worker", func(r *Row) *Count { return &r.RunnerUp }),
		timeColumn("runner_up_cost_blocks", "its cost", func(r *Row) *MS { return &r.RunnerUpCost }),
		verdictColumn("slo_met", "whether it met the objectives", func(r *Row) *Verdict { return &r.SLO }),
		textColumn("slo_missed", "those it missed, joined with +", func(r *Row) *string { return &r.SLOMissed }),
	}
}

// Int is the value of a column of integers, and whether there is one.
func (c *Column) Int(r *Row) (int64, bool) {
	switch {
	case c.number != nil:
		return int64(*c.number(r)), true
	case c.count != nil:
		v := *c.count(r)
		return int64(v), v.Known()
	}
	return 0, false
}

// Float is the value of a column of floats, and whether there is one.
func (c *Column) Float(r *Row) (float64, bool) {
	if c.time == nil {
		return 0, false
	}
	v := *c.time(r)
	return float64(v), v.Known()
}

// Text is the value of a column of text, and whether there is one.
func (c *Column) Text(r *Row) (string, bool) {
	if c.text == nil {
		return "", false
	}
	v := *c.text(r)
	return v, v != ""
}

// Bool is the value of a column of truths, and whether there is one.
func (c *Column) Bool(r *Row) (value, known bool) {
	if c.verdict == nil {
		return false, false
	}
	v := *c.verdict(r)
	return v == Met, v != Unjudged
}

func (c *Column) setInt(r *Row, v int64) {
	if c.number != nil {
		*c.number(r) = int(v)
	} else {
		*c.count(r) = Count(v)
	}
}

func (c *Column) setFloat(r *Row, v float64) { *c.time(r) = MS(v) }
func (c *Column) setText(r *Row, v string)   { *c.text(r) = v }

func (c *Column) setBool(r *Row, v bool) {
	*c.verdict(r) = Missed
	if v {
		*c.verdict(r) = Met
	}
}
