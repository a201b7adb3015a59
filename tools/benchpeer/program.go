package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// program is a program with the command line of the reference.
type program struct {
	name    string
	argv    []string // absolute path of the command, and its first arguments
	tail    []string // last arguments of the command
	env     []string // additional environment variables
	timeout time.Duration
}

// withTimeout returns a release of the reference with a time limit. The script gets the limit too, since it enforces
// a limit itself.
func (p program) withTimeout(limit time.Duration) program {
	p.timeout = limit
	p.env = []string{fmt.Sprintf("PEER_S=%g", limit.Seconds())}
	return p
}

// figure is a measured time of a run.
type figure int

const (
	simulation figure = iota // time in the report
	command                  // time from start to exit
)

func (f figure) String() string { return [...]string{"simulation", "command"}[f] }

// outcome is the result of one run.
type outcome struct {
	took      [2]time.Duration // times by figure
	peakMiB   float64          // resident memory, including the children of the command
	completed int              // number of completed requests
	// unfinished is why the run was stopped early; "": it finished. The numbers of an unfinished run are lower
	// bounds.
	unfinished string
}

// reading is the assumed time for start and input in the first run of a release. The remaining time counts as
// simulation, if the run does not finish.
const reading = 10 * time.Second

// grace is the time in which a run must end after its timeout.
const grace = 15 * time.Second

// run runs the program once in dir, by means of the program launch. A run that does not finish is not an error.
func (p *program) run(ctx context.Context, dir string, args []string) (outcome, error) {
	report, result := filepath.Join(dir, "report.json"), filepath.Join(dir, "result")
	for _, path := range []string{report, result} { // remove the files of an earlier run
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return outcome{}, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, p.timeout+grace)
	defer cancel()
	all := slices.Concat([]string{result}, p.argv, args, p.tail, []string{"--report-json", report})
	cmd := exec.CommandContext(bounded, filepath.Join(dir, "launch"), all...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), p.env...)
	// The program launch passes this signal on, down to the reference.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	if err != nil && bounded.Err() == nil {
		return outcome{}, fmt.Errorf("%s: %w: %s", p.name, err, lastLine(said.String()))
	}
	return p.readOutcome(result, report, said.String())
}

// timedOut is the exit code of timeout(1) after a timeout.
const timedOut = 124

// readOutcome reads the result files of launch and of the program.
func (p *program) readOutcome(result, report, said string) (outcome, error) {
	text, err := os.ReadFile(result)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", p.name, err)
	}
	var o outcome
	var peak int64
	var code int
	if _, err := fmt.Sscan(string(text), &o.took[command], &peak, &code); err != nil {
		return o, fmt.Errorf("%s: result %q: %w", p.name, text, err)
	}
	o.peakMiB = float64(peak) / (1 << 20)
	if runtime.GOOS == "linux" { // Linux counts in KiB
		o.peakMiB *= 1 << 10
	}
	switch {
	case code == timedOut || o.took[command] > p.timeout:
		o.unfinished = fmt.Sprintf("stopped after %v", p.timeout.Round(time.Second))
	case code != 0:
		o.unfinished = fmt.Sprintf("exit %d: %s", code, lastLine(said))
	default:
		return o, o.readReport(report)
	}
	o.took[command] = min(o.took[command], p.timeout)
	o.took[simulation] = max(0, o.took[command]-reading)
	return o, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// readReport reads the report of a program.
func (o *outcome) readReport(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var report struct {
		WallMS    *float64 `json:"wall_time_ms"`
		Completed *int     `json:"completed_requests"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if report.WallMS == nil || report.Completed == nil || *report.WallMS <= 0 {
		return fmt.Errorf("%s: must be wall_time_ms above 0 and completed_requests", path)
	}
	o.took[simulation] = time.Duration(*report.WallMS * 1e6)
	o.completed = *report.Completed
	return nil
}
