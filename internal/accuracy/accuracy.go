// Package accuracy contains the errors of replays compared with measurements of servers. tools/accuracy measures the
// errors, docs/accuracy.md shows the errors, and the program quotes the errors.
//
// Read accuracy.go, tables.go, then published.go and publishedtables.go.
package accuracy

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for accuracy.json.gz
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// FileName is the name of the file of rows in this directory. The program embeds the file compressed to a tenth of
// its size.
const FileName = "accuracy.json"

// TablesName is the name of the file with all tables in this directory.
const TablesName = "tables.txt"

//go:embed accuracy.json.gz
var packed []byte

// Errors has all rows.
type Errors struct {
	Sheets    []Sheet   `json:"data_sheets"`
	Operators []Sheet   `json:"measured_operators"` // without KV tokens and the values of the reference
	Fits      []Fit     `json:"fits"`
	Published Published `json:"published"`
}

// Sheet is a run that was replayed with data sheets only, or with measured operators only. Errors are simulated minus
// measured values, in %.
type Sheet struct {
	Run           string   `json:"run"`
	Class         Class    `json:"class"`
	KVTokens      int      `json:"kv_tokens,omitempty"` // KV capacity that the server reported, in tokens; 0: not reported
	KVOff         float64  `json:"kv_off,omitempty"`
	TPOTMS        float64  `json:"tpot_ms"`
	TPOT          Off      `json:"tpot_off"`
	TTFTMS        float64  `json:"ttft_ms"`
	Queue         bool     `json:"queue,omitempty"` // TTFT is mostly queueing time
	TTFT          Off      `json:"ttft_off"`
	E2EMean       float64  `json:"e2e_mean_off"`
	ITLMS         float64  `json:"itl_ms,omitempty"` // mean inter-token latency; 0: not measured
	ITL           *Off     `json:"itl_off,omitempty"`
	ReferenceTPOT *float64 `json:"reference_tpot_mean_off,omitempty"` // error with the rules of the reference
	ReferenceTTFT *float64 `json:"reference_ttft_mean_off,omitempty"` // error with the rules of the reference; SGLang only
}

// Fit is a set of requests on which a calibrated profile was tested.
type Fit struct {
	Fitted    string `json:"fitted"`
	Judged    string `json:"judged"`
	OtherLoad bool   `json:"other_load,omitempty"` // the load differs from the load of the fitted runs
	Rules     string `json:"rules"`
	TPOT      Off    `json:"tpot_off"`
	TTFT      Off    `json:"ttft_off"`
	Queue     bool   `json:"queue,omitempty"`
	E2E       Off    `json:"e2e_off"`
	Noise     string `json:"noise"` // spread of the means of repeated runs
}

// Off is the error of a mean and of quantiles, in %. A nil quantile was not measured.
type Off struct {
	Mean float64  `json:"mean"`
	P50  *float64 `json:"p50,omitempty"`
	P99  *float64 `json:"p99,omitempty"`
}

// Class is a class of servers.
type Class string

const (
	DenseOnOneGPU Class = "dense models on one GPU" // dense models on vLLM
	Other         Class = "other"                   // models with experts on several GPUs, and SGLang
)

// Load returns the embedded rows.
func Load() (*Errors, error) {
	var e Errors
	text, err := unpackRows(packed)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	return &e, nil
}

// unpackRows decompresses gzip data.
func unpackRows(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Write writes all rows to FileName in the checkout in the working directory, to its compressed copy and to
// TablesName.
func (e *Errors) Write() error {
	text, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	dir := filepath.Join("internal", "accuracy")
	path := filepath.Join(dir, FileName)
	return errors.Join(os.WriteFile(path, text, 0o644), os.WriteFile(path+".gz", small.Bytes(), 0o644), ReplaceTables(filepath.Join(dir, TablesName), e.Tables()))
}

// ReplaceTables replaces tables in a document. The document marks the begin and the end of each table by its name.
func ReplaceTables(path string, tables map[string]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(text)
	for name, table := range tables {
		begin, end := "<!-- "+name+": made by make accuracy -->", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return excerpt.Errorf("%s: no table between %q and %q", path, begin, end)
		}
		page = before + begin + "\n\n" + table + "\n" + end + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// PageTables returns the tables of docs/accuracy.md by name. The table of published servers has only the groups by
// engine and by model.
func (e *Errors) PageTables() map[string]string {
	return map[string]string{
		"measured operators": e.OperatorsTable(), "published servers": e.Published.GroupsTable("all", "engine", "model"),
	}
}

// Tables returns all tables by name.
func (e *Errors) Tables() map[string]string {
	p := &e.Published
	return map[string]string{
		"data sheets": e.SheetsTable(), "measured operators": e.OperatorsTable(), "fits": e.FitsTable(), "filters": p.FiltersTable(), "published servers": p.GroupsTable(), "classes": p.ClassesTable(), "constants": p.ConstantsTable(), "front ends": p.FrontEndsTable(),
	}
}

// Spread is the range of a set of errors, in %.
type Spread struct {
	Rows        int
	Least, Most float64
}

func (s *Spread) add(x float64) {
	if s.Rows == 0 {
		s.Least, s.Most = x, x
	}
	s.Rows++
	s.Least, s.Most = min(s.Least, x), max(s.Most, x)
}

// String returns the range as texts quote it.
func (s Spread) String() string { return fmt.Sprintf("%+.0f to %+.0f %%", s.Least, s.Most) }

// SpreadOf returns the spread of an error over all rows of a class. Rows without this error are skipped.
func SpreadOf(rows []Sheet, class Class, of func(*Sheet) *float64) (s Spread) {
	for i := range rows {
		if r := &rows[i]; r.Class == class {
			if x := of(r); x != nil {
				s.add(*x)
			}
		}
	}
	return s
}

// OfFits returns the spread of an error over all fits that were tested at another load.
func (e *Errors) OfFits(of func(*Fit) *float64) (s Spread) {
	for i := range e.Fits {
		if r := &e.Fits[i]; r.OtherLoad {
			if x := of(r); x != nil {
				s.add(*x)
			}
		}
	}
	return s
}
