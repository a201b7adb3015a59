package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/tools/draw"
	"github.com/replay-llm/replay/tools/peer"
)

// The reference accepts nearly all drawn workloads.
func TestPeerTakesWorkloads(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	const version = "1.2.1"
	if !peer.IsInstalled(version) {
		t.Skipf("skipped: the reference is not installed (%s %s --help)", peer.Script, version)
	}
	python := optional.Program(t, peer.Python(version), "-c", "import dynamo.replay")
	p := &process{python: python, patience: 2 * time.Second}
	defer p.stop()
	dir := t.TempDir()
	taken, endless, refused := 0, 0, 0
	for seed := range uint64(60) {
		w := draw.New(seed)
		if w.Plan != nil {
			continue
		}
		args, err := writeFiles(w, filepath.Join(dir, "t"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.run(context.Background(), append(args, "--report-json", filepath.Join(dir, "r.json")))
		switch {
		case errors.Is(err, errEndless):
			endless++
			t.Logf("seed %d: endless, %v %v", seed, w.Tags, w.Args)
		case err != nil:
			t.Fatal(err)
		case a.Code != 0:
			refused++
			t.Logf("seed %d: %s: %v %s", seed, strings.TrimSpace(a.Said), w.Tags, w.Args)
		default:
			taken++
		}
	}
	if taken < 45 {
		t.Errorf("%d of 60 workloads are taken, %d refused, %d endless; want at least 45 taken", taken, refused, endless)
	}
}
