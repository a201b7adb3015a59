package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// patience is how long a replay may take that the reference does not finish.
const patience = 10 * time.Second

// checkInProcess replays c on one processor and on eight, and returns where the
// results are not the reference's or not the same.
func checkInProcess(ctx context.Context, c *reference.Case) []string {
	spec, err := c.Spec()
	if err != nil {
		return []string{err.Error()}
	}
	if c.Outcome != reference.OK {
		return checkEnds(ctx, &spec)
	}
	var texts [2]string
	var complaints []string
	for i, processors := range []int{1, 8} {
		before := runtime.GOMAXPROCS(processors)
		result, err := spec.Run(ctx, replay.Streams{})
		runtime.GOMAXPROCS(before)
		if err != nil {
			return append(complaints, err.Error())
		}
		if i == 0 {
			complaints = append(compareReport(c, result.Report), compareRequests(c, result)...)
		}
		if texts[i], err = formatResult(result); err != nil {
			return append(complaints, err.Error())
		}
	}
	if texts[0] != texts[1] {
		complaints = append(complaints, "one processor and eight give different reports")
	}
	return complaints
}

// checkEnds wants a report or an error, and soon.
func checkEnds(ctx context.Context, spec *replay.Spec) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := spec.Run(ctx, replay.Streams{})
	if errors.Is(err, context.DeadlineExceeded) {
		return []string{fmt.Sprintf("no end in %v", patience)}
	}
	return nil
}

// formatResult returns a report as a file without what was measured in real time, and all
// requests.
func formatResult(r *harness.Result) (string, error) {
	report := *r.Report
	report.WallMS, report.ProcessedTokensPerS, report.ProcessedOutputPerS = 0, 0, 0
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		return "", err
	}
	for id, request := range r.Collector.Requests() {
		fmt.Fprintf(&b, "%d %+v\n", id, *request)
	}
	return b.String(), nil
}

// compareReport lists where a report is not the reference's.
func compareReport(c *reference.Case, ours *collector.Report) []string {
	theirs, err := c.Report()
	if err != nil {
		return []string{err.Error()}
	}
	return formatDiffs(reference.Compare(theirs, ours))
}

// compareRequests lists where requests are not the reference's, if it kept them.
func compareRequests(c *reference.Case, r *harness.Result) []string {
	theirs, kept, err := c.Requests()
	switch {
	case err != nil:
		return []string{err.Error()}
	case !kept:
		return nil
	}
	return formatDiffs(reference.CompareRequests(theirs, reference.Requests(r.Collector)))
}

func formatDiffs(diffs []reference.Diff) []string {
	var out []string
	for _, d := range diffs {
		out = append(out, d.String())
	}
	return out
}

// checkBinary gives the reference's command line to the binary and compares
// the report it writes.
func checkBinary(ctx context.Context, binary, dir string, c *reference.Case) []string {
	trace, err := c.TracePath()
	if err != nil {
		return []string{err.Error()}
	}
	report := filepath.Join(dir, "report.json")
	args := append(slices.Clone(c.Args), "--compat", "dynamo-1.2", "--report-json", report)
	if trace != "" {
		args = append([]string{trace}, args...)
	}
	if c.Outcome != reference.OK {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return []string{fmt.Sprintf("no end in %v", patience)}
	case c.Outcome != reference.OK:
		return nil
	case err != nil:
		return []string{fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out)))}
	}
	ours, err := reference.ReadReport(report)
	if err != nil {
		return []string{err.Error()}
	}
	return compareReport(c, ours)
}
