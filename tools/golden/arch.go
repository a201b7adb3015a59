package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay"
)

// outcome is the full result of a case with or without compatibility rules.
type outcome struct {
	Case   string `json:"case"`
	Compat bool   `json:"compat"`
	Text   string `json:"text"` // report and all requests, or the error
}

// replayCases replays every case with and without compatibility rules.
func replayCases(ctx context.Context, cases []reference.Case, yield func(outcome) error) error {
	for i := range cases {
		for _, compat := range []bool{true, false} {
			text, err := replayText(ctx, &cases[i], compat)
			if err != nil {
				text = err.Error()
			}
			if err := yield(outcome{cases[i].Name, compat, text}); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func replayText(ctx context.Context, c *reference.Case, compat bool) (string, error) {
	spec, err := c.Spec()
	if err != nil {
		return "", err
	}
	spec.Compat = compat
	result, err := spec.Run(ctx, replay.Streams{})
	if err != nil {
		return "", err
	}
	return formatResult(result)
}

// writeOutcomes prints the results of all cases. writeOutcomes runs in the guest.
func writeOutcomes(ctx context.Context, cases []reference.Case, out io.Writer) error {
	w := json.NewEncoder(out)
	return replayCases(ctx, cases, func(o outcome) error { return w.Encode(o) })
}

// guest is this program, built for another architecture.
type guest struct {
	arch     string
	emulator string
	binary   string
}

// errNoEmulator reports that programs of the architecture cannot run.
var errNoEmulator = errors.New("no emulator")

// newGuest builds this program for an architecture. Only arm64 is supported, since its compiler fuses multiplications
// and additions.
func newGuest(arch, dir string) (*guest, error) {
	if arch != "arm64" {
		return nil, fmt.Errorf("-arch is %q, must be arm64", arch)
	}
	g := &guest{arch: arch, binary: filepath.Join(dir, "golden-"+arch)}
	var err error
	if g.emulator, err = exec.LookPath("qemu-aarch64-static"); err != nil {
		g.emulator, err = exec.LookPath("qemu-aarch64")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: expected qemu-aarch64 (Debian package qemu-user-static)", errNoEmulator)
	}
	build := exec.Command("go", "build", "-o", g.binary, "./tools/golden")
	build.Env = append(os.Environ(), "GOARCH="+arch, "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build for %s: %w\n%s", arch, err, out)
	}
	return g, nil
}

// compareAll compares the cases with the results of the guest, and counts the fused operations of the guest.
func (g *guest) compareAll(ctx context.Context, cases []reference.Case, args []string, t *tally) error {
	places, err := g.listFused()
	if err != nil {
		return err
	}
	if err := g.compareCases(ctx, cases, args, t); err != nil {
		return err
	}
	for _, place := range places {
		fmt.Fprintf(t.out, "%s: a product and a sum are rounded once on %s, must be float64(a*b) + c\n", place, g.arch)
	}
	t.fused = len(places)
	return nil
}

// compareCases replays the cases here and in the guest, and counts the differences in t.
func (g *guest) compareCases(ctx context.Context, cases []reference.Case, args []string, t *tally) error {
	cmd := exec.CommandContext(ctx, g.emulator, append([]string{g.binary, "-outcomes"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	theirs := json.NewDecoder(bufio.NewReader(out))
	err = replayCases(ctx, cases, func(ours outcome) error {
		var o outcome
		if err := theirs.Decode(&o); err != nil {
			return fmt.Errorf("case %s on %s: %w", ours.Case, g.arch, err)
		}
		t.addCase(ours.Case, true, g.diffOutcomes(ours, o))
		return nil
	})
	if err != nil {
		_ = cmd.Process.Kill() // only the first error is reported
	}
	return errors.Join(err, cmd.Wait())
}

// diffOutcomes returns the first differing lines of two outcomes.
func (g *guest) diffOutcomes(ours, theirs outcome) []string {
	if ours == theirs {
		return nil
	}
	a, b := strings.Split(ours.Text, "\n"), strings.Split(theirs.Text, "\n")
	a, b = append(a, make([]string, max(0, len(b)-len(a)))...), append(b, make([]string, max(0, len(a)-len(b)))...)
	lines := []string{fmt.Sprintf("compat %v here, case %s, compat %v on %s", ours.Compat, theirs.Case, theirs.Compat, g.arch)}
	for i := range a {
		if a[i] != b[i] {
			lines = append(lines, fmt.Sprintf("line %d is %q here and %q on %s", i+1, a[i], b[i], g.arch))
		}
	}
	return lines
}

// listFused returns the source lines of the project with fused operations in the guest. A fused operation computes a
// product and a sum with a single rounding.
func (g *guest) listFused() ([]string, error) {
	out, err := exec.Command("go", "tool", "objdump", g.binary).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool objdump: %w", err)
	}
	return parseFused(string(out))
}

func parseFused(listing string) ([]string, error) {
	operation := regexp.MustCompile(`^\s+(\S+:\d+)\s.*\bFN?M(?:ADD|SUB)[SD]\b`)
	var places []string
	function, ours := "", 0
	for line := range strings.SplitSeq(listing, "\n") {
		if name, ok := strings.CutPrefix(line, "TEXT "); ok {
			function = ""
			if strings.HasPrefix(name, "github.com/replay-llm/replay/") {
				function, _, _ = strings.Cut(name, "(SB)")
				ours++
			}
			continue
		}
		if m := operation.FindStringSubmatch(line); m != nil && function != "" {
			places = append(places, fmt.Sprintf("%s in %s", m[1], function))
		}
	}
	if ours == 0 {
		return nil, errors.New("go tool objdump: no function of the project in its listing")
	}
	slices.Sort(places)
	return slices.Compact(places), nil
}
