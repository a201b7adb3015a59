package calibrate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeRecorded writes a run as replay drive does: 24 requests, of which two did not
// complete.
func writeRecorded(t *testing.T, dir, change, to string) {
	t.Helper()
	var rows, trace strings.Builder
	for i := range 24 {
		at, status, output := 5+0.1*float64(i), "ok", 3
		switch i {
		case 3:
			status, output = "error", 0
		case 7:
			status = "cancelled"
		}
		fmt.Fprintf(&rows, `{"request_id":"%d","status":"%s","server":"s%d","input_toks":%d,"output_toks":%d,"cached_toks":16,"arrival_time":%g,"first_token_ts":%g,"last_token_ts":%g,"gaps_s":[0.01,0.02]}`+"\n",
			i, status, i%2, 40+i, output, at, at+0.05, at+0.08)
		fmt.Fprintf(&trace, `{"timestamp":%g,"input_length":%d,"output_length":3,"hash_ids":[1,%d]}`+"\n", 1000*at, 40+i, 10+i)
	}
	files := map[string]string{
		"measured.jsonl": rows.String(), "trace.jsonl": trace.String(),
		"meta.json": `{"trace_block_size":32,"num_gpu_blocks":400,"block_size":16,"max_num_seqs":8,"max_num_batched_tokens":2048,"enable_prefix_caching":true}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(text, change, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A run of replay drive is read with its prompts, without what failed before a token; what was
// cancelled is replayed and not judged.
func TestReadRecorded(t *testing.T) {
	dir := t.TempDir()
	writeRecorded(t, dir, "", "")
	m, err := ReadTimes(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := m.Requests[3] // 4 of the file, since 3 failed
	if len(m.Requests) != 23 || m.Failed != 1 || m.Cut != 1 || !math.IsNaN(m.Requests[6].Last) || r.ID != "4" || r.Server != "s0" || *r.Cached != 16 || len(r.gaps) != 2 {
		t.Errorf("%d requests, %d failed, %+v", len(m.Requests), m.Failed, r)
	}
	if ttft := r.First - r.Arrival; math.Abs(ttft-0.05) > 1e-9 || m.Requests[0].Arrival != 0 {
		t.Errorf("TTFT %v s, first arrival %v", ttft, m.Requests[0].Arrival)
	}
	if p := m.Prompts; p == nil || p.BlockTokens != 32 || p.ids[r.Place][1] != 14 || p.check(m.Requests) != nil {
		t.Errorf("prompts %+v", p)
	}
	if flags := m.Settings.Flags(); len(flags) == 0 || flags[0] != (Flag{"num-gpu-blocks", "400"}) {
		t.Errorf("flags %v", flags)
	}
}

// Rows that make no sense are refused with their place.
func TestBadRecorded(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"arrival_time":5,`, "", "measured.jsonl:1: arrival_time or last_token_ts is missing"},
		{`"arrival_time":5,`, `"arrival_time":9,`, "measured.jsonl:1: arrival, first and last token at 9, 5.05 and 5.08 s, want them in this order"},
		{`"output_toks":3`, `"output_toks":0`, "measured.jsonl:1: input_toks is 40 and output_toks 0"},
		{`{"request_id":"0"`, `{"request_id":"0`, "measured.jsonl:1: "},
		{`"input_length":40`, `"input_length":41`, "trace.jsonl:1: input_length is 41, want 40 as measured"},
		{`{"trace_block_size"`, `{trace`, "meta.json: "},
		{`"hash_ids":[1,10]`, `"hash_ids":[1]`, "trace.jsonl:1: 1 hash_ids of 32 tokens for input_length 40"},
	} {
		dir := t.TempDir()
		writeRecorded(t, dir, c.old, c.new)
		m, err := ReadTimes(dir)
		if err == nil {
			err = m.Prompts.check(m.Requests)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

// What the client could not keep is known of the run.
func TestLateClientIsKnown(t *testing.T) {
	dir := t.TempDir()
	writeRecorded(t, dir, `"arrival_time":5,`, `"due_time":4.988,"arrival_time":5,`)
	m, err := ReadTimes(dir)
	if err != nil {
		t.Fatal(err)
	}
	const want = "the client sent 1 of 1 requests more than 1 ms late, by 12.0 ms at p99 and 12.0 ms at most"
	if n, of, text := m.Late(); n != 1 || of != 1 || text != want {
		t.Errorf("%d of %d: %s, want %s", n, of, text, want)
	}
	if notes := strings.Join(m.Settings.Notes, "\n"); !strings.Contains(notes, want) {
		t.Errorf("notes %q", notes)
	}
}

// A file, and a directory of runs, are no run.
func TestRefusesWhatIsNoRun(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"part-0001", "part-0002"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
		writeRecorded(t, filepath.Join(dir, part), "", "")
	}
	for path, want := range map[string]string{
		dir: "holds directories of runs, want one of them, such as " + filepath.Join(dir, "part-0001"),
		filepath.Join(dir, "part-0001", "measured.jsonl"): "is a file, want the directory",
	} {
		if _, err := ReadTimes(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := Read(path, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
