package deployment

import (
	"maps"
	"strings"
	"testing"
)

const sglangLog = `[2026-05-01 10:00:00] server_args=ServerArgs(model_path='/models/Qwen3-14B', tp_size=2, page_size=64, mem_fraction_static=0.837, max_running_requests=None, chunked_prefill_size=8192, schedule_policy='lpm', schedule_conservativeness=1.0, disable_radix_cache=True, disable_overlap_schedule=False, dp_size=1, quantization=None)
[2026-05-01 10:00:40 TP0] max_total_num_tokens=198208, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=256, context_len=40960, available_gpu_mem=9.21 GB
`

// TestReadSGLangLog reads start-up logs of older and newer releases of SGLang. The scheduler's values take
// precedence.
func TestReadSGLangLog(t *testing.T) {
	want := map[string]string{
		"engine": "sglang", "model": "/models/Qwen3-14B", "tp": "2", "block-size": "64", "gpu-memory-utilization": "0.837", "max-running-requests": "256",
		"chunked-prefill-size": "4096", "max-prefill-tokens": "16384", "schedule-policy": "lpm", "schedule-conservativeness": "1.0", "enable-prefix-caching": "false",
		"overlap": "true", "max-model-len": "40960", "num-gpu-blocks": "3097",
	}
	newer := strings.NewReplacer("ServerArgs(", "{", ")\n", "}\n").Replace(sglangLog)
	args := newer[strings.Index(newer, "{")+1 : strings.Index(newer, "}")]
	var pairs []string
	for pair := range strings.SplitSeq(args, ", ") {
		key, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, "'"+key+"': "+value)
	}
	newer = strings.Replace(newer, args, strings.Join(pairs, ", "), 1)
	for _, text := range []string{sglangLog, newer} {
		l, err := ReadLog(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(l.Known, want) || l.KVTokens != 198208 || l.SGLang["page_size"] != "64" {
			t.Errorf("%v\nof %s", l.Known, text)
		}
	}
	if _, err := ReadLog(strings.NewReader(strings.Replace(sglangLog, "page_size=64", "page_size=x", 1))); err == nil || !strings.Contains(err.Error(), `page_size is "x", must be`) {
		t.Errorf("%v, want a word about the page", err)
	}
	if _, err := ReadLog(strings.NewReader("ok\n" + strings.Repeat("x", maxLine+1))); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v, want the line that is too long", err)
	}
}

// FuzzReadLog checks that every log yields either an error message or settings.
func FuzzReadLog(f *testing.F) {
	f.Add(log)
	f.Add(sglangLog)
	f.Add("server_args={'page_size': -1}\nmax_total_num_tokens=99999999999999999999, chunked_prefill_size=-1")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := ReadLog(strings.NewReader(text)); err == nil && l.Known["engine"] == "" {
			t.Errorf("%+v: no engine", l)
		}
	})
}
