package optables

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// gemmRow, expertRow and reduceRow are rows of tables in the wheel's layout.
type gemmRow struct {
	Kernel  string  `parquet:"kernel_source,dict"`
	Type    string  `parquet:"gemm_dtype,dict"`
	M       int64   `parquet:"m"`
	N       int64   `parquet:"n"`
	K       int64   `parquet:"k"`
	Latency float64 `parquet:"latency"`
}

type expertRow struct {
	Kernel       string  `parquet:"kernel_source,dict"`
	Type         string  `parquet:"moe_dtype,dict"`
	Distribution string  `parquet:"distribution,dict"`
	Tokens       int64   `parquet:"num_tokens"`
	Hidden       int64   `parquet:"hidden_size"`
	Inter        int64   `parquet:"inter_size"`
	PerToken     int64   `parquet:"topk"`
	Count        int64   `parquet:"num_experts"`
	TP           int64   `parquet:"moe_tp_size"`
	EP           int64   `parquet:"moe_ep_size"`
	Latency      float64 `parquet:"latency"`
}

type reduceRow struct {
	Kernel  string  `parquet:"kernel_source,dict"`
	GPUs    int64   `parquet:"num_gpus"`
	Size    int64   `parquet:"message_size"`
	Latency float64 `parquet:"latency"`
}

func writeRows[T any](t *testing.T, dir, name string, rows ...T) {
	t.Helper()
	path := filepath.Join(dir, "systems/data", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}

// makeWheel writes a small wheel with two GPUs, two engines, and rows with every kind of fault.
func makeWheel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sheet := `gpu: {mem_bw: 3350e9, mem_bw_empirical_scaling_factor: 0.8, mem_empirical_constant_latency: 0.000003, bfloat16_tc_flops: 989e12, fp8_tc_flops: 1978e12, sm_version: 90}
node: {num_gpus_per_node: 8, inter_node_bw: 50e9, intra_node_bw: 450e9, p2p_latency: 0.00001}
misc: {nccl_version: '2.27.3'}
`
	if err := os.MkdirAll(filepath.Join(dir, "systems"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"h100_sxm.yaml": sheet, "h200_sxm.yaml": strings.Replace(sheet, "3350e9", "4800e9", 1),
		"query_versions.yaml": "defaults:\n  vllm: {current: \"0.24.0\"}\n  sglang: {current: \"0.5.14\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "systems", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const bf16 = "bfloat16"
	writeRows(t, dir, "h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet",
		gemmRow{"", bf16, 1, 4096, 4096, 0.02}, gemmRow{"", bf16, 1, 4096, 4096, 0.001}, // the first row is kept
		gemmRow{"", bf16, 2, 4096, 4096, 0.03}, gemmRow{"", bf16, 4, 4096, 4096, 0.025}, // 2 tokens are slower than 4
		gemmRow{"", bf16, 8, 4096, 4096, 0.04}, gemmRow{"", bf16, 4096, 4096, 4096, 0.01}, // faster than the data sheet
	)
	writeRows(t, dir, "h100_sxm/gemm/vllm/0.25.0/gemm_perf.parquet", gemmRow{"", bf16, 1, 4096, 4096, 0.0101}) // newer than the current release
	writeRows(t, dir, "h100_sxm/gemm/sglang/0.5.9/gemm_perf.parquet", gemmRow{"", bf16, 8, 4096, 4096, 0.03})  // a faster row of an older release
	writeRows(t, dir, "h100_sxm/comm/vllm/0.24.0/custom_allreduce_perf.parquet",
		reduceRow{"vLLM_custom_eager", 4, 1024, 0.02}, reduceRow{"vLLM_custom_graph", 4, 1024, 0.004}, reduceRow{"vLLM_custom_graph", 4, 2048, 0.006})
	expert := expertRow{"", "w4a16_mxfp4", "power_law_1.2", 8, 2880, 2880, 4, 32, 1, 1, 0.2}
	slow := expert
	slow.Latency = 0.6
	writeRows(t, dir, "h100_sxm/moe/vllm/0.24.0/moe_perf.parquet", expert)
	writeRows(t, dir, "h100_sxm/moe/sglang/0.5.14/moe_perf.parquet", slow)                                   // a kernel that the engine does not use for serving
	writeRows(t, dir, "h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet", gemmRow{"", bf16, 1, 4096, 4096, 0.05}) // slower than on h100
	return dir
}

// Faults of rows are corrected, counted and listed.
func TestReadGuards(t *testing.T) {
	dir := makeWheel(t)
	none := func(string) (*Tables, error) { return &Tables{donor: &Sheet{}}, nil }
	h100, report, err := ReadGuarded(dir, "h100", none)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, found Time, ms float64, source Source) {
		t.Helper()
		if d := found.Ms/ms - 1; d > 1e-3 || d < -1e-3 || found.Source != source {
			t.Errorf("%s: %.5f ms, %v; want %.5f, %v", what, found.Ms, found.Source, ms, source)
		}
	}
	const bf16 = "bfloat16"
	near("the first of two rows", h100.GEMM(bf16, 1, 4096, 4096), 0.02, Measured)
	near("slower than a larger batch", h100.GEMM(bf16, 2, 4096, 4096), 0.025, Measured)
	near("the least of two engines", h100.GEMM(bf16, 8, 4096, 4096), 0.03, Measured)
	near("between points", h100.GEMM(bf16, 6, 4096, 4096), 0.0275, Measured)
	near("not faster than the data sheet", h100.GEMM(bf16, 4096, 4096, 4096), boundGEMM(h100.Sheet(), bf16, [3]int{4096, 4096, 4096}), Measured)
	near("with graphs", h100.AllReduce(VLLM, 4, 1536), 0.005, Measured)
	near("beyond the end in proportion", h100.AllReduce(VLLM, 4, 4096), 0.012, Measured)
	near("over two nodes", h100.AllReduce(VLLM, 16, 2048), 0.006*(15.0/16)/(3.0/4)*450/50, Interpolated)
	x := Experts{"w4a16_mxfp4", 2880, 2880, 4, 32, 1, 1, "power_law_1.2"}
	near("experts", h100.Experts(VLLM, x, 8), 0.2, Measured)
	near("experts of a kernel that is not served", h100.Experts(SGLang, x, 8), 0.2, Interpolated)
	x.Hidden = 5760
	if found := h100.Experts(VLLM, x, 8); found.Source != Filled || found.Ms < 0.3 || found.Ms > 0.5 {
		t.Errorf("experts twice as wide: %v", found)
	}

	dropped := Counts{{"a kernel that the engine does not serve with on this GPU", 1}, {"a repeated shape", 1}, {"measured without CUDA graphs", 1}, {"slower than another engine's", 1}}
	changed := Counts{{"faster than the data sheet", 1}, {"slower than a larger batch", 1}}
	if report.Read != 12 || report.Kept != 8 || !slices.Equal(report.Dropped, dropped) || !slices.Equal(report.Changed, changed) {
		t.Errorf("got %+v", report)
	}
	if report.Older["sglang"]["gemm_perf"] != "0.5.9" || report.Releases["vllm"] != "0.24.0" {
		t.Errorf("releases %v, older %v", report.Releases, report.Older)
	}
	listed := slices.ContainsFunc(report.Faults, func(f Fault) bool {
		return f.File == "data/h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet" && f.Shape == "gemm bfloat16 4096 4096, m 2" && f.Was == 0.03 && f.Is == 0.025
	})
	if !listed {
		t.Errorf("faults %v, want that of 2 tokens", report.Faults)
	}

	h200, report, err := ReadGuarded(dir, "h200", func(string) (*Tables, error) { return h100, nil })
	if err != nil {
		t.Fatal(err)
	}
	near("slower than an older GPU", h200.GEMM(bf16, 1, 4096, 4096), 0.02, Measured)
	if !slices.Contains(report.Changed, Count{"slower than h100", 1}) || len(report.Faults) != 1 {
		t.Errorf("got %+v", report)
	}
}

// Reading twice gives the same bytes. An engine's own rows stay unchanged.
func TestReadIsDeterministic(t *testing.T) {
	dir := makeWheel(t)
	var files [2][]byte
	for i := range files {
		tables, err := Read(dir, "h100")
		if err != nil {
			t.Fatal(err)
		}
		if files[i], err = tables.Encode(nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two readings give other bytes")
	}
	own, err := ReadOwn(dir, "h100", VLLM)
	if err != nil {
		t.Fatal(err)
	}
	if found := own.GEMM("bfloat16", 2, 4096, 4096); found.Ms < 0.0299 || found.Ms > 0.0301 {
		t.Errorf("an engine's own row of 0.03 ms: %v", found)
	}
}

// Errors name what is missing and the most similar valid name.
func TestReadErrors(t *testing.T) {
	if _, err := Load("h101"); err == nil || !strings.Contains(err.Error(), "h100") {
		t.Errorf("h101: %v", err)
	}
	if _, err := Read(t.TempDir(), "h100"); err == nil || !strings.Contains(err.Error(), "systems/data") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), "h100"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	dir := makeWheel(t)
	if _, err := Read(dir, "b200"); err == nil || !strings.Contains(err.Error(), "b200_sxm.yaml") {
		t.Errorf("no data sheet: %v", err)
	}
	writeRows(t, dir, "h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet", struct{ M int64 }{1})
	if _, err := Read(dir, "h100"); err == nil || !strings.Contains(err.Error(), "gemm_dtype") {
		t.Errorf("columns are missing: %v", err)
	}
}
