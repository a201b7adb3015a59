package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/replay/records"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/cmd/explore/exploretest"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/report/html"
)

const chat = "../../testdata/traces/chat-hour.jsonl"

// Two builds of the page from this checkout have the same bytes, within the maximum size. In Node and in a real
// browser the page gives the digests of the command.
func TestPage(t *testing.T) {
	long.Only(t)
	b, err := newBuild("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := b.makePage()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "explorer.html")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(page))
	t.Run("again", func(t *testing.T) {
		again, err := b.makePage()
		if err != nil || !bytes.Equal(page, again) {
			t.Errorf("another %d bytes the second time, %v", len(again), err)
		}
	})
	t.Run("node", func(t *testing.T) { testNode(t, path) })
	t.Run("live", func(t *testing.T) { testLive(t, path) })
	t.Run("browser", func(t *testing.T) { testBrowser(t, path) })
	t.Run("browser/live", func(t *testing.T) { testLiveBrowser(t, path) })
}

// replay runs a command line of the simulator, and returns its output or its error.
func replay(t *testing.T, args ...string) string {
	t.Helper()
	program := cli.Program(func(s cli.Streams, _ []string) *cobra.Command {
		root := cli.NewProgram(&cobra.Command{Use: "replay"})
		root.AddCommand(runs.NewTraceCommand(s, nil), runs.NewConcurrencyCommand(s, nil), records.NewReportCommand(s))
		return root
	})
	var out, problems bytes.Buffer
	if code := program.Run(args, strings.NewReader(""), &out, &problems); code != 0 {
		return fmt.Sprintf("code %d: %s", code, &problems)
	}
	return out.String()
}

// digestOf returns the digest of settings in a session. Other tests compare the digests of sessions with the command.
func digestOf(t *testing.T, s *explore.Session, settings explore.Settings) string {
	t.Helper()
	a, err := s.Run(context.Background(), settings)
	if err != nil {
		t.Fatalf("%v: %v", settings, err)
	}
	return a.Digest
}

// newSession returns a session with the trace of the chat hour.
func newSession(t *testing.T) *explore.Session {
	t.Helper()
	s := explore.New()
	if err := s.AddFile(chat); err != nil {
		t.Fatal(err)
	}
	return s
}

// reply is an answer of the worker.
type reply struct {
	OK     bool
	Error  string
	Flag   string
	Answer json.RawMessage
}

// askNode sends questions to the worker of a page in Node. If file is not "", the worker first gets this file.
func askNode(t *testing.T, page, file string, questions ...[2]any) []reply {
	t.Helper()
	node := optional.Program(t, "node", "--version")
	text, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(t.TempDir(), "questions.json")
	if err := os.WriteFile(asked, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "testdata/worker.mjs", page, file, asked)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("%v: %.2000s", err, &problems)
	}
	var all []reply
	for line := range strings.Lines(string(out)) {
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%.200s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// testNode sends runs of random settings, rejected settings and detail queries to the worker, and cancels a question.
func testNode(t *testing.T, page string) {
	session, rng := newSession(t), rand.New(rand.NewPCG(3, 4))
	name := filepath.Base(chat)
	var questions [][2]any
	var want []string
	for range long.Cases(3, 6) {
		settings := exploretest.Draw(rng, chat)
		want = append(want, digestOf(t, session, settings))
		settings["trace"] = name
		questions = append(questions, [2]any{"run", map[string]any{"view": "a", "settings": settings}})
	}
	plain := map[string]string{"trace": name, "workers": "2"}
	all := askNode(t, page, chat, append(questions,
		[2]any{"run", map[string]any{"settings": map[string]string{"trace": "/etc/passwd"}}},
		[2]any{"run", map[string]any{"settings": map[string]string{"trace": name, "model": "/etc/passwd"}}},
		[2]any{"request", map[string]any{"settings": plain, "request": "10"}},
		[2]any{"worker", map[string]any{"settings": plain, "worker": map[string]any{"worker": 1}}},
		[2]any{"moved", map[string]any{"settings": plain, "other": map[string]string{"trace": name}}},
		[2]any{"fly", map[string]any{}},
		[2]any{"ended", map[string]any{"settings": map[string]string{"trace": name, "workers": "8", "router": "kv", "gpu": "h100", "model": "llama-3.1-8b"}}},
		[2]any{"traces", map[string]any{}})...)
	if len(all) != 1+len(questions)+8 {
		t.Fatalf("%d answers", len(all))
	}
	for i, digest := range want {
		var a explore.Answer
		if r := all[1+i]; !r.OK || json.Unmarshal(r.Answer, &a) != nil || a.Digest != digest {
			t.Errorf("%v: digest %s %s, the command's is %s", questions[i], a.Digest, r.Error, digest)
		}
	}
	rest := all[1+len(want):]
	for i, part := range []string{"must be one of the 1 traces", "must be one of", "request 10, ", `"Worker":1`, `"moved":`, "no question", "", name} {
		if r := rest[i]; part != "" && !strings.Contains(r.Error+strings.ReplaceAll(string(r.Answer), `\n`, "\n"), part) {
			t.Errorf("answer %d: %v %s %.200s, want %q", i, r.OK, r.Error, r.Answer, part)
		}
	}
	if r := rest[6]; r.OK || r.Error != "a newer run was asked for" {
		t.Errorf("a run that nobody wants any more: %v %q", r.OK, r.Error)
	}
}

// testLive builds a page of a run that gives the digest of the run. Runs that a page cannot replay are rejected.
func testLive(t *testing.T, page string) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	text, err := os.ReadFile("../../internal/cmd/files/policies/least-loaded.yaml")
	if err == nil {
		err = os.WriteFile(policy, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{
		{"--workers", "3", "--router", "kv", "--gpu", "h100", "--model", "llama-3.1-8b", "--until", "10m"},
		{"--workers", "2", "--max-model-len", "4096", "--gpu", "h100", "--model", "gemma-3-27b", "--until", "5m"},
		{"--workers", "3", "--router-policy", policy, "--until", "20m", "--enable-prefix-caching=false"},
	} {
		run, out := filepath.Join(dir, fmt.Sprint("run", i)), filepath.Join(dir, fmt.Sprint("page", i, ".html"))
		replay(t, append([]string{"trace", chat, "--out", run}, args...)...)
		if said := replay(t, "report", run, "--html", out, "--live", "--live-page", page); said != "" {
			t.Fatalf("%v: %s", args, said)
		}
		begin := readBegin(t, out)
		var a explore.Answer
		r := askNode(t, out, "", [2]any{"run", map[string]any{"settings": begin.Run.Settings}})[0]
		if !r.OK || json.Unmarshal(r.Answer, &a) != nil || a.Digest != begin.Run.Digest {
			t.Errorf("%v: digest %s %s, recorded %s", args, a.Digest, r.Error, begin.Run.Digest)
		}
	}
}

// readBegin reads the initial data of a live page.
func readBegin(t *testing.T, path string) *explore.Begin {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := new(explore.Begin)
	if err := html.ReadStandalone(page, begin); err != nil || begin.Run == nil || begin.Run.Settings[options.TraceSetting] != chat {
		t.Fatalf("%s: %v, %+v", path, err, begin.Run)
	}
	return begin
}
