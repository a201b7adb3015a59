package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/peer"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// comparison measures rows with this program and the reference.
type comparison struct {
	*bench
	only     string
	quick    bool
	scale    bool
	timeout  time.Duration
	peer     string
	versions string

	rows  []row.Row
	rules []row.RulesRow
	ours  program
	peers []program
}

func runPeers(args []string, stdout, stderr io.Writer) int {
	c := &comparison{bench: newBench("benchpeer", 5, "pairs of runs per row, in turn; with -scale: rounds", stdout, stderr)}
	fs := c.flags
	fs.StringVar(&c.only, "only", "", "only rows with a title or name that this regular expression matches")
	fs.BoolVar(&c.quick, "quick", false, "one pair with fewer requests, to try the tools")
	fs.BoolVar(&c.scale, "scale", false, "measure how time and memory grow, without the reference")
	fs.DurationVar(&c.timeout, "timeout", 600*time.Second, "time after which a run counts as unfinished")
	fs.StringVar(&c.peer, "peer", peer.Script, "script that installs and runs the reference")
	fs.StringVar(&c.versions, "versions", "1.2.1,1.4.2", "releases of the reference, by comma; each row is measured against the fastest")
	return c.run(args, c.chooseRows, c.measure)
}

// chooseRows checks the flags and selects the rows.
func (c *comparison) chooseRows() error {
	switch {
	case c.timeout < time.Second:
		return fmt.Errorf("-timeout is %v, must be at least 1s", c.timeout)
	case c.scale && c.only != "":
		return errors.New("-only chooses rows of the table, remove -scale")
	}
	pattern, err := regexp.Compile(c.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	for _, r := range row.All() {
		if !pattern.MatchString(r.Title) && !pattern.MatchString(r.Name()) {
			continue
		}
		if c.quick {
			r = r.Quick()
		}
		c.rows = append(c.rows, r)
	}
	for _, r := range row.RulesTable() {
		if pattern.MatchString(r.Title) {
			c.rules = append(c.rules, r)
		}
	}
	if len(c.rows)+len(c.rules) == 0 {
		return fmt.Errorf("-only %q matches no row", c.only)
	}
	return nil
}

// measure prints the tables and returns the number of rows that missed a bound.
func (c *comparison) measure(ctx context.Context) (missed int, err error) {
	if err := stopwatch.Build(ctx, filepath.Join(c.dir, "launch"), "./tools/benchpeer/launch"); err != nil {
		return 0, err
	}
	c.ours = program{name: "ours", argv: []string{c.binary}, tail: []string{"--compat", "dynamo-1.2"}, timeout: c.timeout}
	if c.quick {
		c.pairs = 1
	}
	hasTrace := true
	if c.scale || c.needTrace() {
		_, hasTrace = c.findTrace("")
	}
	switch {
	case c.scale && hasTrace:
		missed, err = c.measureScaling(ctx)
	case !c.scale:
		missed, err = c.measureRows(ctx, hasTrace)
	}
	if c.quick {
		missed = 0
	}
	return missed, err
}

// needTrace reports whether a selected row replays the conversation trace.
func (c *comparison) needTrace() bool {
	return slices.ContainsFunc(c.rules, func(r row.RulesRow) bool { return r.Source == row.Conversation }) ||
		slices.ContainsFunc(c.rows, func(r row.Row) bool { return r.Source == row.Conversation })
}

// measureRows measures the selected rows. Rows of engine rules do not require the reference. Without the conversation
// trace, the rows that replay it are omitted.
func (c *comparison) measureRows(ctx context.Context, hasTrace bool) (missed int, err error) {
	if !hasTrace {
		c.rules = slices.DeleteFunc(c.rules, func(r row.RulesRow) bool { return r.Source == row.Conversation })
		c.rows = slices.DeleteFunc(c.rows, func(r row.Row) bool { return r.Source == row.Conversation })
	}
	if len(c.rules) > 0 {
		if missed, err = c.measureRules(ctx); err != nil {
			return missed, err
		}
	}
	if len(c.rows) == 0 {
		return missed, nil
	}
	more, err := c.measureTable(ctx)
	if errors.Is(err, peer.ErrMissing) {
		fmt.Fprintf(c.out, "benchpeer: skipped: %v\n", err)
		return missed, nil
	}
	return missed + more, err
}

// measureTable measures the rows, prints each row at once, and returns the number of rows that miss a bound.
func (c *comparison) measureTable(ctx context.Context) (missed int, err error) {
	for version := range strings.SplitSeq(c.versions, ",") {
		p, err := c.installPeer(ctx, version)
		if err != nil {
			return 0, err
		}
		c.peers = append(c.peers, p)
	}
	c.printHead()
	for _, r := range c.rows {
		m, err := c.measureRow(ctx, r)
		if ctx.Err() != nil {
			return missed, ctx.Err()
		}
		if err != nil { // the remaining rows may succeed
			fmt.Fprintf(c.out, "| %s | | | | | | | | | | FAILED: %v |\n", r.Title, err)
			missed++
			continue
		}
		j := judgeRow(m)
		verdict := j.String()
		if c.quick {
			verdict = "(" + verdict + ")"
		}
		fmt.Fprintf(c.out, "| %s | %s | %s |\n", r.Title, strings.Join(j.cells, " | "), verdict)
		if len(j.missed) > 0 {
			missed++
		}
	}
	fmt.Fprintf(c.out, "\n%d rows, %d missed.\n", len(c.rows), missed)
	return missed, nil
}

// installPeer returns a release of the reference. installPeer installs the release if needed.
func (c *comparison) installPeer(ctx context.Context, version string) (program, error) {
	script, err := filepath.Abs(c.peer)
	if err != nil {
		return program{}, err
	}
	if err := peer.Install(ctx, script, version); err != nil {
		return program{}, err
	}
	p := program{name: version, argv: []string{script, version}}
	return p.withTimeout(c.timeout), nil
}
