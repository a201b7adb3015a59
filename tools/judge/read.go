package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Row is a measured server at one load.
type Row struct {
	Engine    string // vllm, sglang or trtllm
	Release   string // release of the engine; "": unknown
	Model     string // name in the file
	GPU       string // name in the file
	Precision string // precision of the weights: fp8, fp4 or int4; "": bfloat16
	Products  string // type of the weights in matrix products, as named in the file
	Source    string // source of the row
	Mode      string // agg or disagg

	Input, Output, Concurrency int
	TP, DP, MoETP, EP          int // 0: not in the file

	TTFT, TPOT float64 // means in ms
	Repeats    int     // number of merged rows of the same configuration; TTFT and TPOT are their medians
}

// columns maps the column names of a file to their positions.
type columns map[string]int

// Read reads the rows of a file. Read finds columns by name and ignores additional columns.
func Read(r io.Reader) ([]Row, error) {
	reader := csv.NewReader(r)
	names, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	c := columns{}
	for i, name := range names {
		c[name] = i
	}
	for _, name := range columnNames() {
		if _, ok := c[name]; !ok {
			return nil, fmt.Errorf("header: there is no column %s", name)
		}
	}
	var rows []Row
	for {
		record, err := reader.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row, err := c.parse(record)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		rows = append(rows, row)
	}
}

// columnNames returns the names of the required columns.
func columnNames() []string {
	return []string{
		"silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode", "isl", "osl", "gemm_quant_mode",
		"batch_size", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "silicon_ttft_ms", "silicon_tpot_ms",
	}
}

// parse returns the row of a record.
func (c columns) parse(record []string) (row Row, err error) {
	text := func(name string) string { return record[c[name]] }
	whole := func(name string) (n int) {
		if s := text(name); s != "" && err == nil {
			if n, err = strconv.Atoi(s); err != nil || n < 0 {
				err = excerpt.Errorf("%s is %q, must be a whole number of at least 0", name, s)
			}
		}
		return n
	}
	time := func(name string) (ms float64) {
		if s := text(name); s != "" && err == nil {
			if ms, err = strconv.ParseFloat(s, 64); err != nil || !(ms >= 0) {
				err = excerpt.Errorf("%s is %q, must be a number of at least 0", name, s)
			}
		}
		return ms
	}
	row = Row{
		Engine: text("backend"), Release: text("backend_version"), Model: text("model_path"), GPU: text("system"), Precision: text("precision"),
		Products: text("gemm_quant_mode"), Source: sourceOf(text("silicon_data_source")), Mode: text("mode"),
		Input: whole("isl"), Output: whole("osl"), Concurrency: whole("batch_size"),
		TP: whole("tp_size"), DP: whole("attention_dp_size"), MoETP: whole("moe_tp_size"), EP: whole("moe_ep_size"),
		TTFT: time("silicon_ttft_ms"), TPOT: time("silicon_tpot_ms"), Repeats: 1,
	}
	row.Concurrency *= max(row.DP, 1) // the column is the concurrency per rank; silicon_concurrency in the data source is the product
	return row, err
}

// sourceOf returns the path of a source without the folders of its machine. The path begins with the folder of the
// GPU.
func sourceOf(text string) string {
	name, _, _ := strings.Cut(text, ";")
	name = strings.TrimPrefix(name, "source_file=")
	if _, rest, ok := strings.Cut(name, "/data/"); ok {
		return rest
	}
	if strings.HasPrefix(name, "/") {
		return path.Base(name)
	}
	return name
}

// Drawn reports whether lengths were drawn uniformly from 0.8 to 1 times those of the row, as in InferenceX. All
// other rows have exact lengths. The files of gap analyses have rows of InferenceX with rounded times.
func (r *Row) Drawn() bool {
	return strings.HasPrefix(r.Source, "db-dump") || r.Source == "2026-03-25.csv" || r.Source == "2026-04-06.csv" || strings.HasSuffix(r.Source, "-gap-analysis.csv")
}

// GPUs returns the number of GPUs for attention.
func (r *Row) GPUs() int { return max(r.TP, 1) * max(r.DP, 1) }
