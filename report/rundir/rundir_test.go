package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
)

// ran returns the result of a small run.
func ran(t *testing.T) *harness.Result {
	t.Helper()
	spec := spec()
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func spec() replay.Spec {
	args := engineargs.Default()
	return replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 30, Input: 1000, Output: 7, Interval: 3, Turns: 2, Delay: 5},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 2), Seed: 7},
	}
}

// write makes a run directory and returns its path.
func write(t *testing.T, path string, over Replace) error {
	t.Helper()
	result := ran(t)
	rows := requests.Collect(result.Collector, nil, nil, nil)
	trace, err := HashInput("trace", "somewhere.jsonl", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Version: "test", Requests: "requests.parquet", Inputs: []Input{trace}}
	s := spec()
	r.Config = SettingsOf(s.Recorded())
	r.Digest = NewDigest(r.Inputs, r.Config, Lifecycles(rows))
	return r.Write(context.Background(), path, over, []File{
		{ReportFile, result.Report.WriteJSON},
		{r.Requests, func(w io.Writer) error { return requests.Write(w, requests.Parquet, rows) }},
	})
}

// A written directory verifies, and each change of it is found.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir string) error
		want   string // what differs, "" for nothing
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"a request's token", func(dir string) error {
			path := filepath.Join(dir, "requests.parquet")
			rows, err := requests.ReadFile(path)
			rows[3].Last += 0.001
			var out bytes.Buffer
			return errors.Join(err, requests.Write(&out, requests.Parquet, rows), os.WriteFile(path, out.Bytes(), 0o600))
		}, "requests.parquet lifecycles digest"},
		{"a setting", func(dir string) error { return replaceIn(dir, RunFile, `"workers": 2`, `"workers": 3`) }, "configuration digest"},
		{"the input", func(dir string) error { return replaceIn(dir, RunFile, `"sha256": "2d71`, `"sha256": "2d72`) }, "configuration digest"},
		{"the report", func(dir string) error {
			return replaceIn(dir, ReportFile, `"completed_requests": 60`, `"completed_requests": 61`)
		}, "report.json completed_requests"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		if err := write(t, dir, ReplaceNothing); err != nil {
			t.Fatal(err)
		}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		found, err := Verify(dir)
		if err != nil || len(found) < 10 {
			t.Fatalf("%s: %d findings, %v", c.name, len(found), err)
		}
		var differs []string
		for _, f := range found {
			if f.Differs != "" {
				differs = append(differs, f.What)
			}
		}
		if got := strings.Join(differs, " "); got != c.want {
			t.Errorf("%s changed: %q differ, want %q", c.name, got, c.want)
		}
	}
}

func replaceIn(dir, name, old, new string) error {
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(text, []byte(old)) {
		return fmt.Errorf("%s holds no %s", name, old)
	}
	return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o600))
}

// An existing path is replaced only on request.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	run, other := filepath.Join(dir, "run"), filepath.Join(dir, "other")
	if err := write(t, run, ReplaceNothing); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(other, "precious"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		over Replace
		ok   bool
	}{
		{run, ReplaceNothing, false}, {other, ReplaceNothing, false}, {other, ReplaceRun, false},
		{run, ReplaceRun, true}, {run, ReplaceAnything, true}, {other, ReplaceAnything, true},
		{filepath.Join(dir, "new", "run"), ReplaceNothing, true},
	} {
		if err := write(t, c.path, c.over); (err == nil) != c.ok {
			t.Errorf("%s, %d: %v", c.path, c.over, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v are left, want run, other and new (%v)", entries, err)
	}
}

// If a directory cannot be completed, no file remains, for any cause.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	for name, fail := range map[string]func(io.Writer) error{
		"full": func(w io.Writer) error { return errors.New("no space left on device") },
		"interrupted": func(w io.Writer) error {
			cancel()
			_, err := w.Write([]byte("x"))
			return err
		},
	} {
		r := &Run{}
		err := r.Write(ctx, filepath.Join(dir, "run"), ReplaceNothing, []File{
			{"a", func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }}, {"b", fail},
		})
		if entries, _ := os.ReadDir(dir); err == nil || len(entries) != 0 {
			t.Errorf("%s: %v; %v are left", name, err, entries)
		}
	}
}

// The key of a setting is its position in the configuration. Zero settings and the paths of inputs do not count.
func TestSettings(t *testing.T) {
	s := spec()
	s.Trace = &replay.Trace{Path: "a.jsonl", BlockTokens: 512}
	values := SettingsOf(s.Recorded())
	for key, want := range map[string]string{
		"workers": "2", "seed": "7", "mode": "0", "router": `"round_robin"`, "trace.path": `"a.jsonl"`,
		"aggregated.block_tokens": "64", "aggregated.engine": `"vllm"`, "aggregated.sglang.chunk_tokens": "8192",
		"aggregated.prefix_caching": "true", "synthetic.requests": "30", "aggregated.kv_bytes_per_token": "0",
	} {
		if string(values[key]) != want && key != "mode" {
			t.Errorf("%s is %s, want %s", key, values[key], want)
		}
	}
	before := NewDigest(nil, SettingsOf(s.Recorded()), "")
	s.Trace.Path = "b.jsonl"
	if after := NewDigest(nil, SettingsOf(s.Recorded()), ""); after != before {
		t.Errorf("another path: digest %v, want %v", after, before)
	}
	s.Topology = s.Resize(3)
	if after := NewDigest(nil, SettingsOf(s.Recorded()), ""); after == before {
		t.Error("another number of workers has the same digest")
	}
	with := SettingsOf(s.Recorded())
	with["zzz.new"] = []byte("false")
	if NewDigest(nil, with, "") != NewDigest(nil, SettingsOf(s.Recorded()), "") {
		t.Error("a setting that nobody made changes the digest")
	}
}

// The digest of a run is the same on every machine.
func TestDigestIsStable(t *testing.T) {
	rows := requests.Collect(ran(t).Collector, nil, nil, nil)
	const want = "41c1ccb0d0d2b3883bfef516d7ce0ae626c71af82c076768297c71c95ddb6efb"
	if got := Lifecycles(rows); got != want {
		t.Errorf("lifecycles %s, want %s", got, want)
	}
}

// The configuration hash uses the content of a file, not its name. A timing model without a file counts by its name.
func TestConfigurationOfFiles(t *testing.T) {
	digest := func(content, key, value string) string {
		in, err := HashInput("profile", "somewhere", strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return NewDigest([]Input{in}, Settings{"seed": []byte("1"), key: []byte(value)}, "").Configuration
	}
	for _, key := range []string{"trace.path", "aggregated.profile_path", "trace.made.classes.0.lengths_from"} {
		if digest("x", key, `"a"`) != digest("x", key, `"b"`) {
			t.Errorf("%s: the name of a file counts", key)
		}
		if digest("x", key, `"a"`) == digest("y", key, `"a"`) {
			t.Errorf("%s: the content of a file does not count", key)
		}
	}
	key := "aggregated.profile_path"
	if digest("x", key, `"roofline:h100/a"`) == digest("x", key, `"roofline:h100/b"`) {
		t.Error("which roofline does not count")
	}
}
