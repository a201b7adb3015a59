package explain

import (
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
)

// Document is the JSON form of the explanation of a request.
type Document struct {
	Title
	InputTokens   int                `json:"input_tokens"`
	ReusedTokens  int                `json:"reused_tokens"`
	OutputTokens  int                `json:"output_tokens"` // so far
	Worker        int                `json:"worker"`
	WorkerKind    string             `json:"worker_kind,omitempty"` // in a mix
	PrefillWorker *int               `json:"prefill_worker"`        // null: the same worker decoded it
	Preemptions   int                `json:"preemptions"`
	Finished      bool               `json:"finished"`
	E2E           *float64           `json:"e2e_ms"` // null: it has not finished
	Ledger        map[string]float64 `json:"ledger"` // null: the run was recorded without
	HeldUpBy      []HoldDocument     `json:"held_up_by"`
	Operators     []Operators        `json:"operators,omitempty"` // of pass times by measured operators
}

// Title is the JSON form of a request's title.
type Title struct {
	Request int    `json:"request"`
	Line    *int   `json:"line"` // of the trace; null: of none
	Session string `json:"session"`
	Turn    int    `json:"turn"`
}

// HoldDocument is the JSON form of a request that delayed the explained request.
type HoldDocument struct {
	Title
	Total   float64 `json:"total_ms"`
	Prefill float64 `json:"prompt_ms"`
	Ahead   float64 `json:"ahead_ms"`
	Decode  float64 `json:"decode_ms"`
}

// Document returns the JSON form of the explanation of request id.
func (r *Run) Document(id int) (d Document, err error) {
	row := &r.Rows[id]
	d = Document{
		Title: titleOf(row), InputTokens: int(row.Input), ReusedTokens: int(row.Reused), OutputTokens: int(row.Tokens),
		Worker: int(row.Worker), WorkerKind: r.kindOf(row), Preemptions: int(row.Preemptions), Finished: row.Finished(), HeldUpBy: []HoldDocument{},
	}
	if row.PrefillWorker.Known() {
		worker := int(row.PrefillWorker)
		d.PrefillWorker = &worker
	}
	if !row.Finished() {
		return d, nil
	}
	total := float64(row.E2E)
	d.E2E = &total
	if !row.Explained() {
		return d, nil
	}
	d.Ledger = map[string]float64{}
	for _, p := range ledger.Parts() {
		if ms := row.Parts[p]; ms.Known() {
			d.Ledger["in_"+p.Key()+"_ms"] = float64(ms)
		}
	}
	d.Operators, err = r.OperatorsOf(id)
	for _, h := range r.Blame(id) {
		d.HeldUpBy = append(d.HeldUpBy, HoldDocument{titleOf(&r.Rows[h.Request]), h.Total(), h.Prefill, h.Ahead, h.Decode})
	}
	return d, err
}

func titleOf(row *requests.Row) Title {
	t := Title{Request: int(row.ID), Session: row.Session, Turn: row.Turn}
	if row.Line.Known() && row.Line > 0 {
		line := int(row.Line)
		t.Line = &line
	}
	return t
}
