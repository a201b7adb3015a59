package measured

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

// TestReadRecorded reads a run of replay drive with its prompts. Requests that failed before a token are absent, and
// cancelled requests are replayed but not judged.
func TestReadRecorded(t *testing.T) {
	dir := t.TempDir()
	measuredtest.WriteRecorded(t, dir, "", "")
	m, err := ReadRequests(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := m.Requests[3] // request 4 of the file, since 3 failed
	if len(m.Requests) != 23 || m.Failed != 1 || m.Cut != 1 || !math.IsNaN(m.Requests[6].Last) || r.ID != "4" || r.Server != "s0" || *r.Cached != 16 || len(r.Gaps) != 2 {
		t.Errorf("%d requests, %d failed, %+v", len(m.Requests), m.Failed, r)
	}
	if ttft := r.First - r.Arrival; math.Abs(ttft-0.05) > 1e-9 || m.Requests[0].Arrival != 0 {
		t.Errorf("TTFT %v s, first arrival %v", ttft, m.Requests[0].Arrival)
	}
	if p := m.Prompts; p == nil || p.BlockTokens != 32 || p.IDs[r.Place][1] != 14 || p.Check(m.Requests) != nil {
		t.Errorf("prompts %+v", p)
	}
	if flags := m.Settings.Flags(); len(flags) == 0 || flags[0] != (Flag{"num-gpu-blocks", "400"}) {
		t.Errorf("flags %v", flags)
	}
}

// TestBadRecorded checks that errors about invalid rows name the file and the line.
func TestBadRecorded(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"arrival_time":5,`, "", "measured.jsonl:1: arrival_time or last_token_ts is missing"},
		{`"arrival_time":5,`, `"arrival_time":9,`, "measured.jsonl:1: arrival, first and last token at 9, 5.05 and 5.08 s, must be in this order"},
		{`"output_toks":3`, `"output_toks":0`, "measured.jsonl:1: input_toks is 40 and output_toks 0"},
		{`{"request_id":"0"`, `{"request_id":"0`, "measured.jsonl:1: "},
		{`"input_length":40`, `"input_length":41`, "trace.jsonl:1: input_length is 41, must be 40 as measured"},
		{`{"trace_block_size"`, `{trace`, "meta.json: "},
		{`"hash_ids":[1,10]`, `"hash_ids":[1]`, "trace.jsonl:1: 1 hash_ids of 32 tokens for input_length 40"},
	} {
		dir := t.TempDir()
		measuredtest.WriteRecorded(t, dir, c.old, c.new)
		m, err := ReadRequests(dir, 0)
		if err == nil {
			err = m.Prompts.Check(m.Requests)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

// TestLateClientIsKnown checks that a run reports requests that the client could not send on time.
func TestLateClientIsKnown(t *testing.T) {
	dir := t.TempDir()
	measuredtest.WriteRecorded(t, dir, `"arrival_time":5,`, `"due_time":4.988,"arrival_time":5,`)
	m, err := ReadRequests(dir, 0)
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

// TestRefusesWhatIsNoRun checks that a file and a directory of runs are refused as a run.
func TestRefusesWhatIsNoRun(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"part-0001", "part-0002"} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
		measuredtest.WriteRecorded(t, filepath.Join(dir, part), "", "")
	}
	for path, want := range map[string]string{
		dir: "holds directories of runs, must have one of them, such as " + filepath.Join(dir, "part-0001"),
		filepath.Join(dir, "part-0001", "measured.jsonl"): "is a file, must be the directory",
	} {
		if _, err := ReadRequests(path, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := ReadRun(path, 0, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
