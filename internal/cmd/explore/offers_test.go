package explore

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Knobs for files have only the offered files as choices. Each run reads its file again.
func TestOffer(t *testing.T) {
	names := func(s *Session, flag string) []string {
		for _, k := range s.Knobs() {
			if k.Flag == flag {
				return k.Choices
			}
		}
		return []string{"no knob"}
	}
	s := newSession(t, short)
	if got := names(s, "router-policy"); !slices.Equal(got, []string{"no knob"}) || names(s, "faults") != nil {
		t.Errorf("without files: %v", got)
	}
	path := filepath.Join(t.TempDir(), "faults.yaml")
	run := func(at string) (*Answer, error) {
		if err := os.WriteFile(path, []byte("[{at: "+at+", worker: 1, what: slow, factor: 9}]"), 0o600); err != nil {
			t.Fatal(err)
		}
		if names(s, "faults") == nil {
			offerAll(t, s, "faults", path)
		}
		return s.Run(context.Background(), Settings{"trace": short, "workers": "2", "faults": path})
	}
	a, err := run("0s")
	b, later := run("1000h")
	if err != nil || later != nil || a.Digest == b.Digest {
		t.Errorf("%v, %v: want two runs that differ", err, later)
	}
	for _, c := range [][3]string{
		{"faults", path, "is given twice"},
		{"faults", path + "x", "no such file"},
		{"autoscale", filepath.Dir(path), "must be a file"},
		{"router-policy", path, "must be"},
	} {
		if err := s.Offer(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("--%s %s: %v, want %s", c[0], c[1], err, c[2])
		}
	}
}

// A run with an autoscaler that is a program is rejected, and the program is not started.
func TestNoPrograms(t *testing.T) {
	s, dir := newSession(t, short), t.TempDir()
	path, mark := filepath.Join(dir, "scaler.yaml"), filepath.Join(dir, "started")
	if err := os.WriteFile(path, []byte("scaler: process\nmin: 1\nmax: 4\ncommand: touch "+mark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	offerAll(t, s, "autoscale", path)
	if _, err := s.Run(context.Background(), Settings{"trace": short, "autoscale": path}); err == nil || !strings.Contains(err.Error(), "asks a separate program") {
		t.Errorf("%v: want a refusal", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
}

// A run of a trace directory has the digest of the command. Requests on a mix of worker types can be explained.
func TestDirectoriesAndMixes(t *testing.T) {
	const servegen = "../../../testdata/traces/formats/servegen"
	s, ctx := newSession(t, servegen, chat), context.Background()
	a, err := s.Run(ctx, Settings{"trace": servegen, "workers": "2"})
	if err != nil {
		t.Fatal(err)
	}
	if want := printDigest(t, shellWords(t, a.Command)[1:]); a.Digest != want {
		t.Errorf("digest %s, the command's is %s", a.Digest, want)
	}
	mix := Settings{"trace": chat, "workers": "h100:2,l40s:2", "model": "llama-3.1-8b"}
	if text, err := s.Request(ctx, mix, "10"); err != nil || !strings.Contains(text, "decode") {
		t.Errorf("%q, %v: want the ledger of request 10", text, err)
	}
}

// Classes of a file are in the answer, and the run has the digest of the command.
func TestClassesOfAFile(t *testing.T) {
	const file = "../../../testdata/classes/by-length.yaml"
	s := newSession(t, chat)
	offerAll(t, s, "classes", file)
	a, err := s.Run(context.Background(), Settings{"trace": chat, "workers": "4", "classes": file})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(a.Run); err != nil || !strings.Contains(string(text), `"name":"documents"`) {
		t.Errorf("%v: no class in %.300s", err, text)
	}
	if want := printDigest(t, shellWords(t, a.Command)[1:]); a.Digest != want {
		t.Errorf("digest %s, the command's is %s", a.Digest, want)
	}
}
