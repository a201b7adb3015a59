package optables

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/parquetfile"
)

// layout describes the conversion of a table of the wheel to a table of this package.
type layout struct {
	place  int
	family string
	file   string
	texts  []string // text columns of the key, after the engine if the key has one
	ints   []string
	axis   []string // columns with a sum that is the axis
	engine bool     // the first column of the key is the engine
	op     string   // required op_name of rows; "": any
	fixed  string   // a column that must have the value in the field value; "": none
	value  int64
}

// listLayouts returns the layouts of all tables of engines.
func listLayouts() []layout {
	attention := []string{"head_dim", "num_key_value_heads", "window_size", "num_heads"}
	module := []string{"mla_dtype", "kv_cache_dtype", "gemm_type"}
	past, sparse := []string{"isl", "step"}, []string{"architecture", "kv_cache_dtype", "gemm_type"}
	return []layout{
		{place: gemmTable, family: "gemm", file: "gemm_perf", texts: []string{"gemm_dtype"}, ints: []string{"n", "k"}, axis: []string{"m"}},
		{place: contextTable, family: "attention", file: "context_attention_perf", texts: []string{"kv_cache_dtype"}, ints: joinColumns(attention, "isl"), axis: []string{"batch_size"}},
		{place: generationTable, family: "attention", file: "generation_attention_perf", texts: []string{"kv_cache_dtype"}, ints: joinColumns(attention, "batch_size"), axis: past},
		{place: latentContextTable, family: "mla", file: "context_mla_perf", texts: module[:2], ints: []string{"num_heads", "isl"}, axis: []string{"batch_size"}},
		{place: latentGenerationTable, family: "mla", file: "generation_mla_perf", texts: module[:2], ints: []string{"num_heads", "batch_size"}, axis: past},
		{place: moduleContextTable, family: "mla", file: "mla_context_module_perf", texts: module, ints: []string{"num_heads", "isl"}, axis: []string{"batch_size"}},
		{place: moduleGenerationTable, family: "mla", file: "mla_generation_module_perf", texts: module, ints: []string{"num_heads", "batch_size"}, axis: past},
		{place: productTable, family: "mla_bmm", file: "mla_bmm_perf", texts: []string{"op_name", "bmm_dtype"}, ints: []string{"num_heads"}, axis: []string{"num_tokens"}},
		{
			place: expertsTable, family: "moe", file: "moe_perf", engine: true, texts: []string{"moe_dtype", "distribution"},
			ints: []string{"hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"}, axis: []string{"num_tokens"},
		},
		{place: allReduceTable, family: "comm", file: "custom_allreduce_perf", engine: true, ints: []string{"num_gpus"}, axis: []string{"message_size"}},
		{place: sparseContextTable, family: sparseFamily, file: contextModule + "_perf", texts: sparse, ints: []string{"num_heads", "isl"}, axis: []string{"batch_size"}, op: contextModule, fixed: "step"},
		{place: sparsePastTable, family: sparseFamily, file: contextModule + "_perf", texts: sparse, ints: []string{"num_heads", "isl"}, axis: past, op: contextModule, fixed: "batch_size", value: 1},
		{place: sparseGenerationTable, family: sparseFamily, file: generationModule + "_perf", texts: sparse, ints: []string{"num_heads", "batch_size"}, axis: past, op: generationModule},
		{place: linearTable, family: "linear_attention", file: "gdn_perf", texts: []string{"op_name", "kernel_source"}, ints: []string{"num_k_heads", "num_v_heads", "seq_len"}, axis: []string{"batch_size"}},
	}
}

// Tables of sparse attention. Some rows select the tokens to attend to, and some reuse the selection of another
// layer.
const (
	sparseFamily     = "sparse_attention"
	contextModule    = "dsa_context_module"
	generationModule = "dsa_generation_module"
)

func joinColumns(a []string, b string) []string { return append(append([]string{}, a...), b) }

// collectiveLayout returns the layout of the NCCL tables, which do not belong to an engine.
func collectiveLayout() layout {
	return layout{place: collectiveTable, texts: []string{"op_name"}, ints: []string{"num_gpus"}, axis: []string{"message_size"}}
}

// columns is the content of the columns of a wheel table that a layout uses.
type columns struct {
	texts, kinds [][]string
	ints, axis   [][]int64
	fixed        []int64 // fixed values; nil: none
	latency      []float64
}

// Columns that describe the kind of a row. Each table has some of the columns.
const (
	kernelColumn = iota
	attentionColumn
	collectiveColumn
	backendColumn
	opColumn
	phaseColumn
	kindColumns
)

// read reads the columns of a table.
func (l *layout) read(t *parquetfile.File) (*columns, error) {
	c := &columns{kinds: make([][]string, kindColumns)}
	var err error
	if c.texts, err = readAll(l.texts, t.Texts); err != nil {
		return nil, err
	}
	for i, name := range [...]string{"kernel_source", "attn_dtype", "nccl_dtype", "backend", "op_name", "phase"} {
		if t.Has(name) {
			if c.kinds[i], err = t.Texts(name); err != nil {
				return nil, err
			}
		}
	}
	ints := func(name string) ([]int64, error) {
		if name == "window_size" && !t.Has(name) { // tables of older releases lack the column
			return make([]int64, t.Rows()), nil
		}
		return t.Ints(name)
	}
	if c.ints, err = readAll(l.ints, ints); err != nil {
		return nil, err
	}
	if c.axis, err = readAll(l.axis, ints); err != nil {
		return nil, err
	}
	if l.fixed != "" {
		if c.fixed, err = t.Ints(l.fixed); err != nil {
			return nil, err
		}
	}
	c.latency, err = t.Doubles("latency")
	return c, err
}

func readAll[T any](names []string, read func(string) ([]T, error)) (all [][]T, err error) {
	for _, name := range names {
		column, err := read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, column)
	}
	return all, nil
}

// kind returns the value of a column that describes the kind of a row, or "" if the table lacks the column.
func (c *columns) kind(column, row int) string {
	if c.kinds[column] == nil {
		return ""
	}
	return c.kinds[column][row]
}

// reject returns the reason why a row is not used, or "" if it is used.
func (d *draft) reject(l *layout, c *columns, row int, engine string) string {
	kernel := c.kind(kernelColumn, row)
	switch {
	case !(c.latency[row] > 0):
		return "no latency"
	case l.op != "" && c.kind(opColumn, row) != l.op:
		return "a layer that takes the choice of another one"
	case c.fixed != nil && c.fixed[row] != l.value:
		return "in another table"
	case l.place == linearTable && c.kind(phaseColumn, row) == "verify":
		return "verification of drafts"
	case strings.HasSuffix(kernel, "_eager"), strings.HasSuffix(c.kind(backendColumn, row), "_eager"):
		return "measured without CUDA graphs"
	case l.place == contextTable && c.kind(attentionColumn, row) != "bfloat16":
		return "attention in fp8"
	case l.place == collectiveTable && c.kind(collectiveColumn, row) != "half":
		return "values of 1 byte"
	case kernel == "moe_torch_flow_min_latency":
		return "kernel for few tokens"
	case kernel == "moe_torch_flow_nongated":
		return "two products instead of three"
	case l.place == expertsTable && c.texts[0][row] == "w4a16_mxfp4" && (engine == "sglang" && d.sheet.SM <= 90 || engine == "trtllm" && d.sheet.SM >= 100):
		return "a kernel that the engine does not serve with on this GPU"
	}
	return ""
}

// expertTypeOf returns the name of a type of experts, which also depends on the kernel for some types.
func expertTypeOf(dtype, kernel string) string {
	switch {
	case dtype == "w4a8_mxfp4_mxfp8" && kernel == "sglang_mxfp4_flashinfer_trtllm_moe":
		return dtype + "_trtllm"
	case dtype == "w4a16_mxfp4" && kernel == "sglang_flashinfer_cutlass_moe":
		return dtype + "_cutlass"
	}
	return dtype
}

// row is one measurement.
type row struct {
	key  key // texts are indices in draft.words
	axis int32
	ms   float64
	file int32

	kernel string
}

// rowsOf is the source of rows.
type rowsOf struct {
	engine string
	file   int32 // index in draft.files
}

// rows returns the measurements of a table in the order of its file, without rejected rows.
func (d *draft) rows(l *layout, c *columns, from rowsOf) ([]row, error) {
	var all []row
	for i := range c.latency {
		if reason := d.reject(l, c, i, from.engine); reason != "" {
			d.report.Dropped.add(reason, 1)
			continue
		}
		r := row{ms: c.latency[i], file: from.file, kernel: c.kind(kernelColumn, i)}
		at := 0
		text := func(s string) {
			r.key[at] = d.word(s)
			at++
		}
		if l.engine {
			text(from.engine)
		}
		for j := range c.texts {
			s := c.texts[j][i]
			switch {
			case l.place == expertsTable && j == 0:
				s = expertTypeOf(s, c.kind(kernelColumn, i))
			case l.place == linearTable && j == 1:
				s = linearStepOf(s, c.kind(phaseColumn, i))
			}
			text(s)
		}
		axis := int64(0)
		for j := range c.axis {
			axis += c.axis[j][i]
		}
		for j := range c.ints {
			v := c.ints[j][i]
			if v < 0 || v > 1<<30 {
				return nil, fmt.Errorf("row %d: %s is %d, must be from 0 to %d", i, l.ints[j], v, 1<<30)
			}
			r.key[at+j] = int32(v)
		}
		if axis < 1 || axis > 1<<31-1 {
			return nil, fmt.Errorf("row %d: %s is %d, must be from 1 to %d", i, strings.Join(l.axis, " + "), axis, 1<<31-1)
		}
		if l.family == "attention" && r.key[2] == r.key[4] { // the number of key-value heads equals the number of heads
			r.key[2] = 0
		}
		r.axis = int32(axis)
		all = append(all, r)
	}
	return all, nil
}
