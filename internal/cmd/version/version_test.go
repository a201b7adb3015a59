package version

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// The version, commit and date depend on the build information.
func TestReadBuild(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "2553036f5e3be60a0096b0db3c50d9648bb69ebd"},
			{Key: "vcs.time", Value: "2026-11-23T02:39:51Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	const untagged, revision, date = "v0.0.0-20261123023951-2553036f5e3b", "2553036f5e3be60a0096b0db3c50d9648bb69ebd", "2026-11-23T02:39:51Z"
	for _, c := range []struct {
		name, module string
		settings     []debug.BuildSetting
		version      string
		commit, date string
		changed      bool
	}{
		{"a tagged checkout", "v1.2.3", vcs("false"), "v1.2.3", revision, date, false},
		{"a tagged candidate", "v1.2.3-rc.1", vcs("false"), "v1.2.3-rc.1", revision, date, false},
		{"a tagged checkout with changes", "v1.2.3+dirty", vcs("true"), "v1.2.3", revision, date, true},
		{"a checkout without a tag", untagged, vcs("false"), "devel", revision, date, false},
		{"one with changes", untagged + "+dirty", vcs("true"), "devel", revision, date, true},
		{"one after a tag", "v1.2.4-0.20261123023951-2553036f5e3b", vcs("false"), "devel", revision, date, false},
		{"one after a candidate", "v1.2.4-rc.1.0.20261123023951-2553036f5e3b", vcs("false"), "devel", revision, date, false},
		{"an installed release", "v1.2.3", nil, "v1.2.3", "", "", false},
		{"an installed commit", untagged, nil, "devel", "2553036f5e3b", date, false},
		{"go run", "(devel)", nil, "devel", "", "", false},
		{"a test", "", nil, "devel", "", "", false},
	} {
		build := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: c.module}, Settings: c.settings}
		d := newDocument("replay", build)
		if d.Version != c.version || d.Commit != c.commit || d.Date != c.date || d.Changed != c.changed || d.Go != "go1.26.8" {
			t.Errorf("%s: got %+v", c.name, d)
		}
	}
	if d := newDocument("replay", nil); d.Version != "devel" || d.Go == "" {
		t.Errorf("without build information: %+v", d)
	}
}

// Every set of rules that users can select by release is listed.
func TestRules(t *testing.T) {
	d := newDocument("replay", nil)
	for engine, names := range map[string][]string{"vllm": releases.Profiles(), "sglang": sglang.Profiles()} {
		releases := d.Rules[engine]
		if len(releases) == 0 {
			t.Fatalf("%s: no rules", engine)
		}
		listed := strings.Join(releases, " ")
		for _, name := range names {
			if release, ok := strings.CutPrefix(name, engine+"-"); ok && !strings.Contains(listed, release) {
				t.Errorf("%s is not among %s", name, listed)
			}
		}
	}
}

// The text shows the source of the commit and whether the checkout had changes.
func TestWriteText(t *testing.T) {
	var b strings.Builder
	d := &Document{
		Program: "replay", Version: "v1.2.3", Commit: "2553036f", Date: "2026-11-23T02:39:51Z", Changed: true, Go: "go1.26.8", System: "linux/amd64",
		Rules: map[string][]string{"vllm": {"0.19", "0.33"}, "sglang": {"0.5.23"}}, Compat: []string{"dynamo-1.2"}, Formats: Formats{Digest: "v1", Run: 1, Profile: 1},
		Tables: &optables.Origin{Source: "aiconfigurator-core", Release: "0.12.0", GPUs: make([]optables.Report, 3)},
	}
	if err := d.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `replay v1.2.3
commit:   2553036f of 2026-11-23T02:39:51Z, with changes
built by: go1.26.8 for linux/amd64
rules:    vLLM 0.19 0.33, SGLang 0.5.23
compat:   dynamo-1.2
formats:  digest v1, run directory 1, timing profile 1
tables:   aiconfigurator-core 0.12.0, 3 GPUs
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
	b.Reset()
	d.Commit, d.Date, d.Changed = "", "", false
	_ = d.WriteText(&b) // a strings.Builder returns no errors
	if !strings.Contains(b.String(), "\ncommit:   not known\n") {
		t.Errorf("without a commit:\n%s", &b)
	}
}

// The JSON document has the origin and license of the operator times, and the engine releases and number of rows by
// GPU.
func TestOperatorTimes(t *testing.T) {
	text, err := json.Marshal(newDocument("replay", nil))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Tables struct {
			Source, Release, License, Notice string
			GPUs                             []struct {
				Name     string
				Releases map[string]string
				Read     int `json:"rows_read"`
				Kept     int `json:"rows_kept"`
				Dropped  []struct {
					Reason string
					Rows   int
				} `json:"rows_dropped"`
			}
		} `json:"operator_times"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Tables.Source == "" || d.Tables.Release == "" || d.Tables.License != "Apache-2.0" || !strings.Contains(d.Tables.Notice, "NVIDIA") {
		t.Errorf("got %+v", d.Tables)
	}
	measured := 0
	for _, g := range d.Tables.GPUs {
		if g.Read == 0 {
			continue
		}
		measured++
		if g.Releases["vllm"] == "" || g.Kept == 0 || len(g.Dropped) == 0 {
			t.Errorf("%s: %+v", g.Name, g)
		}
	}
	if measured < 9 {
		t.Errorf("%d GPUs with measurements, want at least 9", measured)
	}
}
