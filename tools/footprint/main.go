// Command footprint checks the limits of the program's size, memory and start time.
//
//	go run ./tools/footprint [-binary FILE]
//
// Without -binary, footprint builds cmd/replay like a release, without symbols. The command measures replay --version
// and a replay of 100 requests several times. The command uses the lowest values, so that the load of the machine
// does not matter. The exit code is 3 if a limit is exceeded. Memory is measured only on Linux. The built program
// must not look up methods by names that are not constant. Otherwise the linker keeps every exported method of every
// type, which adds about 5 MB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// Limits of the program.
const (
	mostBytes    = 27_500_000            // size of the stripped binary
	mostResident = 16 << 20              // peak resident bytes of replay --version, and of a replay of 100 requests
	mostTime     = 15 * time.Millisecond // time of replay --version
)

// Number of runs of replay --version. Runs after fewestRuns are made only while a limit is exceeded.
const (
	fewestRuns = 20
	mostRuns   = 200
)

func main() {
	binary := flag.String("binary", "", "the `file` to measure (default: one that is built)")
	flag.Parse()
	missed, err := measureProgram(context.Background(), *binary)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	case missed != nil:
		fmt.Fprintln(os.Stderr, "footprint:", missed)
		os.Exit(3)
	}
}

// measureProgram prints the measurements of the program, and returns the exceeded limits.
func measureProgram(ctx context.Context, binary string) (missed, err error) {
	dir, err := os.MkdirTemp("", "footprint")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		binary = filepath.Join(dir, "replay")
		if err := stopwatch.Build(ctx, binary, "./cmd/replay", "-trimpath", "-ldflags=-s -w"); err != nil {
			return nil, err
		}
		if missed, err = checkLookups(ctx, filepath.Join(dir, "linked")); missed != nil || err != nil {
			return missed, err
		}
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	launch := filepath.Join(dir, "launch")
	if err := stopwatch.Build(ctx, launch, "./tools/benchpeer/launch"); err != nil {
		return nil, err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	took, err := takeLeast(func() (taken, error) { return runBoth(ctx, launch, binary, filepath.Join(dir, "result")) })
	if err != nil {
		return nil, err
	}
	took.bytes = info.Size()
	fmt.Printf("replay: %.1f MB; replay --version: %.1f MiB resident, %.1f ms; 100 requests: %.1f MiB resident\n",
		float64(took.bytes)/1e6, float64(took.resident)/(1<<20), float64(took.time)/1e6, float64(took.replay)/(1<<20))
	return took.missed(), nil
}

// checkLookups links the program and returns its functions that look up methods by names that are not constant.
func checkLookups(ctx context.Context, binary string) (missed, err error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-dumpdep", "-o", binary, "./cmd/replay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	if all := listLookups(string(out)); len(all) > 0 {
		return fmt.Errorf("the linker keeps every exported method, since these look methods up by names that are not constant: %s", strings.Join(all, ", ")), nil
	}
	return nil, nil
}

// listLookups returns the functions that the linker marks with <ReflectMethod>. The input has one dependency per
// line: A -> B.
func listLookups(dependencies string) []string {
	var all []string
	for line := range strings.Lines(dependencies) {
		for side := range strings.SplitSeq(strings.TrimSpace(line), " -> ") {
			if name, is := strings.CutSuffix(side, " <ReflectMethod>"); is {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// taken contains the measurements of the program.
type taken struct {
	bytes    int64
	resident int64 // in bytes; 0: not measured
	replay   int64 // in bytes, for a replay of 100 requests; 0: not measured
	time     time.Duration
}

// missed returns the exceeded limits; nil: none.
func (t *taken) missed() error {
	var all []error
	if t.bytes > mostBytes {
		all = append(all, fmt.Errorf("the stripped program has %.1f MB, must be at most %.1f", float64(t.bytes)/1e6, float64(mostBytes)/1e6))
	}
	if t.resident > mostResident {
		all = append(all, fmt.Errorf("replay --version has %.1f MiB resident, must be at most %d", float64(t.resident)/(1<<20), mostResident>>20))
	}
	if t.replay > mostResident {
		all = append(all, fmt.Errorf("a replay of 100 requests has %.1f MiB resident, must be at most %d", float64(t.replay)/(1<<20), mostResident>>20))
	}
	if t.time > mostTime {
		all = append(all, fmt.Errorf("replay --version takes %.1f ms, must be at most %d", float64(t.time)/1e6, mostTime.Milliseconds()))
	}
	return errors.Join(all...)
}

// takeLeast returns the lowest values of several runs. takeLeast makes more runs while a limit is exceeded, since the
// machine may be busy.
func takeLeast(once func() (taken, error)) (least taken, err error) {
	for i := range mostRuns {
		if i >= fewestRuns && least.missed() == nil {
			break
		}
		t, err := once()
		if err != nil {
			return least, err
		}
		if i == 0 {
			least = t
		}
		least.time, least.resident, least.replay = min(least.time, t.time), min(least.resident, t.resident), min(least.replay, t.replay)
	}
	return least, nil
}

// runBoth runs replay --version and a replay of 100 requests.
func runBoth(ctx context.Context, launch, binary, result string) (t taken, err error) {
	if t.time, t.resident, err = runOnce(ctx, launch, result, binary, "--version"); err == nil {
		_, t.replay, err = runOnce(ctx, launch, result, binary, "trace", "--input-tokens=8192", "--output-tokens=128", "--request-count=100",
			"--block-size=512", "--compat=dynamo-1.2")
	}
	return t, err
}

// runOnce runs a command line and returns its wall time and its peak resident bytes.
func runOnce(ctx context.Context, launch, result string, command ...string) (wall time.Duration, resident int64, err error) {
	if out, err := exec.CommandContext(ctx, launch, append([]string{result}, command...)...).CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return 0, 0, err
	}
	code := 0
	if _, err := fmt.Sscan(string(text), &wall, &resident, &code); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", result, err)
	}
	if code != 0 {
		return 0, 0, fmt.Errorf("%q: exit code %d", command, code)
	}
	if runtime.GOOS != "linux" { // other systems use different units
		return wall, 0, nil
	}
	return wall, 1024 * resident, nil
}
