// Command parityscaler compares an autoscaler of this program with the controller that it simulates. Autoscaler and
// controller get the same random clusters. The command compares the wanted numbers of workers at each tick.
//
//	make parity-hpa N=300
//	go run ./tools/parityscaler -oracle bin/hpaoracle -n 1 -seed 17 -v    one case
//	go run ./tools/parityscaler -oracle bin/hpaoracle -n 60 -record FILE  cases for the tests
//
// Read main.go, then case.go (cases and decisions), draw.go (random settings), world.go (random clusters),
// manifest.go (settings as Kubernetes manifests) and shrink.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/peer"
	"github.com/replay-llm/replay/replay/autoscale"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	kind    string
	oracle  string
	n       int
	seed    uint64
	verbose bool
	record  string
	dir     string // folder of manifests
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("parityscaler", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var s settings
	fs.StringVar(&s.kind, "kind", string(autoscale.HPA), "scaler to compare: hpa or keda")
	fs.StringVar(&s.oracle, "oracle", "bin/hpaoracle", "program that runs the controller")
	fs.IntVar(&s.n, "n", 300, "number of cases")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of the first case; later cases have the next seeds")
	fs.BoolVar(&s.verbose, "v", false, "print every tick")
	fs.StringVar(&s.record, "record", "", "file for the cases, with the decisions of the controller")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	differ, err := s.compareAll(context.Background(), stdout)
	if err != nil {
		fmt.Fprintf(stderr, "parityscaler: %v\n", err)
	}
	if err != nil || differ > 0 {
		return 1
	}
	return 0
}

// compareAll runs the cases, prints the cases that differ, and returns their number.
func (s *settings) compareAll(ctx context.Context, stdout io.Writer) (differ int, err error) {
	if s.dir, err = os.MkdirTemp("", "parityscaler"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(s.dir)
	var kept []*scalerCase
	equal, refused, ticks, acts := 0, 0, 0, 0
	for i := range s.n {
		seed := s.seed + uint64(i)
		c, d, err := s.compareSeed(ctx, seed)
		var no *refusal
		switch {
		case errors.As(err, &no):
			refused++
			fmt.Fprintf(stdout, "seed %d: refused: %s\n", seed, no.text)
			continue
		case err != nil:
			return differ, fmt.Errorf("seed %d: %w", seed, err)
		case d != nil:
			differ++
			if err := s.explain(ctx, stdout, seed, c, d); err != nil {
				return differ, err
			}
			continue
		}
		equal++
		kept = append(kept, c)
		ticks += len(c.Ticks)
		acts += c.countActs()
	}
	fmt.Fprintf(stdout, "%s: %d equal, %d differ, %d refused (%d ticks, %d acts)\n", s.kind, equal, differ, refused, ticks, acts)
	if s.record != "" {
		err = writeCases(s.record, kept)
	}
	return differ, err
}

// compareSeed runs the random case of a seed. d is nil if all decisions are equal.
func (s *settings) compareSeed(ctx context.Context, seed uint64) (c *scalerCase, d *difference, err error) {
	w := newWorld(autoscale.Kind(s.kind), seed)
	c = &scalerCase{Config: w.config}
	own := autoscale.New(&c.Config)
	err = s.ask(ctx, &c.Config, func(oracle autoscale.Scaler) error {
		for range w.ticks {
			c.Ticks = append(c.Ticks, newTick(w.tick()))
			t := &c.Ticks[len(c.Ticks)-1]
			d, err = t.compare(own, oracle, len(c.Ticks)-1)
			if d != nil || err != nil {
				return err
			}
			w.scale(t.Want)
		}
		return nil
	})
	return c, d, err
}

// ask starts the controller with settings, and calls f with it.
func (s *settings) ask(ctx context.Context, config *autoscale.Config, f func(autoscale.Scaler) error) error {
	text, err := json.Marshal(newManifest(config))
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "manifest.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	var complaint strings.Builder
	command := fmt.Sprintf("%s -manifest %s -tolerance %v", s.oracle, path, config.Tolerance)
	p, err := peer.Start(ctx, peer.Options{Name: s.kind, Command: command, Timeout: 30 * time.Second, Stderr: &complaint})
	if err != nil {
		return err
	}
	loose := *config
	loose.Min, loose.Max = 0, autoscale.MostWorkers // no limits, so that the controller's decision is visible
	oracle, err := autoscale.NewProcess(p, &loose, autoscale.Workers{}, 0)
	if err == nil {
		err = f(oracle)
	}
	if last := p.Close(); err == nil {
		err = last
	}
	if _, no, ok := strings.Cut(complaint.String(), "the API server refuses it: "); ok {
		return &refusal{strings.TrimSpace(no)}
	}
	if err != nil && complaint.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, complaint.String())
	}
	return err
}

// refusal is the error for settings that Kubernetes does not accept.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
