package explore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore/exploretest"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/long"
	"github.com/spf13/cobra"
)

const (
	chat  = "../../../testdata/traces/chat-hour.jsonl"
	short = "../../../testdata/traces/short.jsonl"
)

func newSession(t testing.TB, paths ...string) *Session {
	t.Helper()
	s := New()
	for _, path := range paths {
		if err := s.AddFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// printDigest runs the command line of an answer and returns the printed digest.
func printDigest(t *testing.T, args []string) string {
	t.Helper()
	program := cli.Program(func(s cli.Streams, _ []string) *cobra.Command {
		root := cli.NewProgram(&cobra.Command{Use: "replay"})
		root.AddCommand(runs.NewTraceCommand(s, nil), runs.NewConcurrencyCommand(s, nil))
		return root
	})
	var out, problems bytes.Buffer
	if code := program.Run(append(args, "--digest"), strings.NewReader(""), &out, &problems); code != 0 {
		t.Fatalf("%v: code %d: %s", args, code, &problems)
	}
	m := regexp.MustCompile(`(?m)^Digest: (\S+)$`).FindSubmatch(out.Bytes())
	if m == nil {
		t.Fatalf("%v: no digest in %s", args, &out)
	}
	return string(m[1])
}

// offerAll offers files for a flag, and returns their paths.
func offerAll(t *testing.T, s *Session, flag string, paths ...string) []string {
	t.Helper()
	for _, path := range paths {
		if err := s.Offer(flag, path); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// shellWords splits a command into words like a shell.
func shellWords(t *testing.T, command string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+command).Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// For 30 random settings, the command line and the config file of an answer give the digest of the answer.
func TestDigestsEqualTheCommands(t *testing.T) {
	s := newSession(t, chat)
	policies := offerAll(t, s, "router-policy", "../../../testdata/policies/cache-first.yaml", "../../../testdata/policies/llm-d-322.yaml")
	scalers := offerAll(t, s, "autoscale", "../../../testdata/scaling/hpa.yaml", "../../../testdata/scaling/keda.yaml")
	faults := offerAll(t, s, "faults", "../../../testdata/faults/one-dies.yaml", "../../../testdata/faults/gone-and-update.yaml")
	rng := rand.New(rand.NewPCG(1, 2))
	seen, used := map[string]bool{}, map[string]int{}
	draws := long.Cases(12, 30)
	for i := range draws {
		settings := Settings(exploretest.Draw(rng, chat))
		if settings["workers"] != "" && rng.IntN(2) == 0 {
			delete(settings, "router")
			settings["router-policy"] = policies[rng.IntN(2)]
		}
		if settings["workers"] != "" && rng.IntN(3) == 0 {
			delete(settings, "max-in-flight")
			delete(settings, "workers")
			delete(settings, "faults")
			settings["autoscale"] = scalers[rng.IntN(2)]
		} else if settings["workers"] > "4" && rng.IntN(2) == 0 {
			settings["faults"] = faults[rng.IntN(2)]
		}
		for name := range settings {
			used[name]++
		}
		a, err := s.Run(context.Background(), settings)
		if err != nil {
			t.Fatalf("%v: %v", settings, err)
		}
		seen[a.Digest] = true
		args := shellWords(t, a.Command)[1:]
		if i%2 == 1 {
			file := filepath.Join(t.TempDir(), "flags.yaml")
			if err := os.WriteFile(file, []byte(a.YAML), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args[:2], "--config", file)
		}
		if want := printDigest(t, args); a.Digest != want {
			t.Errorf("%s: digest %s, the command's is %s", a.Command, a.Digest, want)
		}
	}
	if 4*len(seen) < 3*draws {
		t.Errorf("%d different runs, want most of %d", len(seen), draws)
	}
	for _, name := range []string{"faults", "autoscale", "router-policy", "prefill-workers", "max-in-flight", "slo", "gpu"} {
		if used[name] < long.Cases(1, 2) {
			t.Errorf("%s: drawn %d times, want more", name, used[name])
		}
	}
}

// A trace in memory has the same digest as the same trace in a file.
func TestTextEqualsFile(t *testing.T) {
	text, err := os.ReadFile(chat)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, chat)
	if err := s.AddText(context.Background(), "dropped.jsonl", text); err != nil {
		t.Fatal(err)
	}
	a, err := s.Run(context.Background(), Settings{"trace": chat, "workers": "3"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Run(context.Background(), Settings{"trace": "dropped.jsonl", "workers": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Digest != b.Digest {
		t.Errorf("in memory %s, in a file %s", b.Digest, a.Digest)
	}
}

// Settings that cannot run cause an error with the reason and the invalid knob.
func TestRefusals(t *testing.T) {
	s := newSession(t, short)
	for _, c := range []struct {
		settings   Settings
		want, flag string
	}{
		{Settings{"workers": "0"}, "--workers=0: must be at least 1", "workers"},
		{Settings{"workers": "many"}, "workers=many: must be", "workers"},
		{Settings{"worker": "2"}, "did you mean workers?", ""},
		{Settings{"engine-args": "@/etc/passwd"}, "nothing that can be turned here", ""},
		{Settings{"policy-process": "touch /tmp/x"}, "nothing that can be turned here", ""},
		{Settings{"model": "/etc/passwd"}, "model=/etc/passwd: must be one of", "model"},
		{Settings{"router": "evil.yaml"}, "router=evil.yaml: must be one of", "router"},
		{Settings{"trace": "/etc/passwd"}, "trace=/etc/passwd: must be one of the 1 traces", ""},
		{Settings{"trace": short + "/../short.jsonl"}, "must be one of the 1 traces", ""},
		{Settings{"faults": "/etc/passwd"}, "faults=/etc/passwd: must be a list, as [{at: 60s, worker: 0, what: dies}], or a file", "faults"},
		{Settings{"faults": "[{at: 60s, worker: 1, what: dies}]"}, "--faults: fault 1: worker 1, must be 0", "faults"},
		{Settings{"router-policy": "/etc/passwd"}, "nothing that can be turned here", ""},
		{Settings{"autoscale": "/etc/passwd"}, "autoscale=/etc/passwd: must be {scaler: hpa", "autoscale"},
		{Settings{"autoscale": "{scaler: process, min: 1, max: 2, command: touch x}"}, "must be {scaler: hpa", "autoscale"},
		{Settings{"tokenizer": "/etc/passwd"}, "nothing that can be turned here", ""},
		{Settings{"router-config": "@/etc/passwd"}, "nothing that can be turned here", ""},
		{Settings{"generate-lengths-from": "/etc/passwd"}, "nothing that can be turned here", ""},
		{Settings{"slo-attainment": "0.9"}, "--slo-attainment requires --slo", "slo-attainment"},
		{Settings{"slo": strings.Repeat("x", 2000)}, "2000 bytes", "slo"},
		{Settings{"workers": "2", "decode-workers": "2"}, "workers", "workers"},
	} {
		if c.settings["trace"] == "" {
			c.settings["trace"] = short
		}
		_, err := s.Run(context.Background(), c.settings)
		if err == nil {
			t.Errorf("%v: no error", c.settings)
			continue
		}
		r := Refuse(err)
		if !strings.Contains(r.Error, c.want) || c.flag != "" && r.Flag == "" {
			t.Errorf("%v: %+v, want %q about %q", c.settings, r, c.want, c.flag)
		}
	}
}

// The search of the page finds additional flags without files and programs. A run with these flags has the digest of
// the command.
func TestMoreSettings(t *testing.T) {
	s := newSession(t, chat)
	more := 0
	for _, k := range s.Knobs() {
		if k.More {
			more++
		}
		if k.Label == "" || strings.Contains(strings.ToLower(k.Label), "@file") {
			t.Errorf("%s: label %q", k.Flag, k.Label)
		}
	}
	if more < 60 {
		t.Errorf("%d settings are found by the search alone, must be at least 60", more)
	}
	for _, settings := range []Settings{
		{"trace": chat, "workers": "3", "preemption-mode": "fifo", "retry": "2", "client-timeout": "500ms"},
		{"trace": chat, "workers": "3", "router": "kv", "overlap-score-credit": "0.3", "router-temperature": "0.5", "router-queue-policy": "lcfs"},
		{"trace": chat, "autoscale": "{scaler: hpa, min: 1, max: 4, metrics: [{metric: in_flight, target: 8}], startup: {weights: 30s}}"},
	} {
		a, err := s.Run(context.Background(), settings)
		if err != nil {
			t.Fatalf("%v: %v", settings, err)
		}
		if want := printDigest(t, shellWords(t, a.Command)[1:]); a.Digest != want {
			t.Errorf("%s: digest %s, the command's is %s", a.Command, a.Digest, want)
		}
	}
}

// A trace of an unknown format is accepted. A run reports its columns as an error, and succeeds after the columns are
// set.
func TestColumns(t *testing.T) {
	s, ctx := New(), context.Background()
	if err := s.AddText(ctx, "mine.csv", []byte("when;tokens in;tokens out\n0;100;20\n1;200;30\n")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Run(ctx, Settings{"trace": "mine.csv"})
	if err == nil {
		t.Fatal("columns are known without a setting")
	}
	r := Refuse(err)
	if want := []string{"when", "tokens in", "tokens out"}; !slices.Equal(r.Keys, want) || r.Columns != "arrival=when,input=tokens in,output=tokens out" || r.Flag != "columns" {
		t.Errorf("%+v, want the columns %q", r, want)
	}
	if a, err := s.Run(ctx, Settings{"trace": "mine.csv", "columns": r.Columns}); err != nil || a.Digest == "" {
		t.Errorf("with columns: %v", err)
	}
	if err := s.AddText(ctx, "words.txt", []byte("not a trace\n")); err == nil {
		t.Error("a file without columns is taken")
	}
}

// A new run of a view cancels the previous run of the same view. Runs of other views continue.
func TestNewestWins(t *testing.T) {
	s := New()
	first, _ := s.Newest(context.Background(), "a")
	other, _ := s.Newest(context.Background(), "b")
	second, _ := s.Newest(context.Background(), "a")
	if first.Err() == nil || other.Err() != nil || second.Err() != nil {
		t.Fatalf("%v, %v, %v: want the first to have ended alone", first.Err(), other.Err(), second.Err())
	}
	s.Cancel("a")
	if second.Err() == nil || other.Err() != nil {
		t.Errorf("%v, %v: want the second to have ended", second.Err(), other.Err())
	}
	full := newSession(t, chat)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := full.Run(ctx, Settings{"trace": chat}); err == nil {
		t.Error("a run whose view has gone gives an answer")
	}
}

// Details of a request, of a worker and of the difference between two runs are available.
func TestCloseup(t *testing.T) {
	s, ctx := newSession(t, chat), context.Background()
	settings := Settings{"trace": chat, "workers": "2"}
	text, err := s.Request(ctx, settings, "10")
	if err != nil || !strings.HasPrefix(text, "request 10, ") || !strings.Contains(text, "decode") {
		t.Errorf("%q, %v: want the ledger of request 10", text, err)
	}
	if _, err := s.Request(ctx, settings, "999999"); err == nil {
		t.Error("a request that is not there has a ledger")
	}
	all, err := s.Passes(ctx, settings, Worker{ID: 1, FromMS: 60_000})
	if err != nil || len(all) == 0 || len(all) > mostPasses || all[0].Worker != 1 || all[0].End <= 60_000 {
		t.Errorf("%d passes, %v", len(all), err)
	}
	if _, err := s.Passes(ctx, settings, Worker{ID: 2}); err == nil {
		t.Error("a worker that is not there has passes")
	}
	found, err := s.Compare(ctx, settings, Settings{"trace": chat, "workers": "4"})
	if err != nil || found.Moved == 0 || len(found.Most) != mostMoved || found.Most[0].E2E*found.Most[0].E2E < found.Most[1].E2E*found.Most[1].E2E || len(found.Paired.Metrics) == 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err = s.Compare(ctx, settings, settings); err != nil || found.Moved != 0 {
		t.Errorf("%+v between a run and itself, %v", found, err)
	}
	text, err = s.WritePage(ctx, []Settings{settings, {"trace": chat, "workers": "4"}}, []string{"two <b>", "four"})
	if err != nil || !strings.Contains(text, "</html>") || strings.Contains(text, "<b>") || !strings.Contains(text, "--workers 4") {
		t.Errorf("a page of %d bytes, %v", len(text), err)
	}
	if _, err := s.WritePage(ctx, []Settings{settings}, nil); err == nil {
		t.Error("a run without a name is on a page")
	}
}

// A session completes at least ten replays per second, so that curves can follow a slider.
func TestRunsPerSecond(t *testing.T) {
	s := newSession(t, chat)
	begun, n := time.Now(), 0
	for ; n < 20; n++ {
		if _, err := s.Run(context.Background(), Settings{"trace": chat, "workers": fmt.Sprint(1 + n)}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%.0f replays a second", float64(n)/time.Since(begun).Seconds())
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("20 replays took %v", took)
	}
}
