package options

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// client has the flags for clients: retries, timeouts and the front end.
type client struct {
	*shared
	retries int
	backoff string
	timeout cli.Instant
	// frontEnd is the delay between clients and the router.
	frontEnd frontEnd
}

// frontEnd is the value of --front-end-ms.
type frontEnd struct{ silicon.FrontEnd }

func (f *frontEnd) Type() string { return "front-end" }

func (f *frontEnd) Set(text string) (err error) {
	if f.FrontEnd, err = silicon.ParseFrontEnd(text); err != nil {
		return errors.New("must be ms of at least 0, or ms and ms per prompt token, as 3.2+0.004/token")
	}
	return nil
}

// defaultBackoff is the default of the OpenAI client for Python.
const defaultBackoff = "500ms,x2,max=8s,jitter=0.25"

func (c *client) bindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&c.retries, "retry", 0, "clients retry a shed, lost or timed-out request at most `N` times")
	fs.StringVar(&c.backoff, "retry-backoff", defaultBackoff, "`wait` before the first retry; xFACTOR multiplies it for each further retry, up to max=TIME; jitter=SHARE shortens each wait at random by up to this share")
	fs.Var(&c.frontEnd, frontEndFlag, "time between client and router (HTTP, tokenizing, detokenizing): `ms`, or ms and ms per prompt token, as 3.2+0.004/token; 0: none")
	fs.Lookup(frontEndFlag).DefValue = "fitted, by engine, where pass times are by measured operators; else 0"
	fs.Var(&c.timeout, "client-timeout", "`time` after which a client that got no first token cancels its request: ms, or with a unit, as 10s")
}

const frontEndFlag = "front-end-ms"

func clientFlags() []string { return []string{"retry", "retry-backoff", "client-timeout"} }

// fillClient sets the behavior of clients without an answer in spec.
func (c *client) fillClient(spec *replay.Spec) error {
	if c.Changed(frontEndFlag) {
		spec.FrontEnd = &c.frontEnd.FrontEnd
	}
	if err := cmp.Or(c.Check(
		cli.Needs(!c.IsLive() && !c.IsCluster(), "with --mode offline", clientFlags()...),
		cli.Wants(c.retries >= 0 && c.retries <= engines.MostRetries, "retry", fmt.Sprintf("0 to %d", engines.MostRetries)),
		cli.Needs(c.retries > 0, "with --retry", "retry-backoff"),
		cli.Wants(!c.Changed("client-timeout") || c.timeout.At > 0, "client-timeout", "a time above 0"),
	)); err != nil {
		return err
	}
	if c.retries == 0 && c.timeout.At == 0 {
		return nil
	}
	spec.Client = &engines.Client{Retries: c.retries, Timeout: c.timeout.At, Factor: 1}
	if c.retries == 0 {
		return nil
	}
	if err := parseBackoff(c.backoff, spec.Client); err != nil {
		return cli.Usagef("--retry-backoff=%s: %v", c.backoff, err)
	}
	if err := spec.Topology.CheckClient(); err != nil {
		return cli.Usagef("--retry-backoff=%s: %v", c.backoff, err)
	}
	return nil
}

// parseBackoff parses the delay before a retry, such as 500ms,x2,max=8s,jitter=0.25.
func parseBackoff(text string, c *engines.Client) error {
	first, rest, _ := strings.Cut(text, ",")
	var err error
	if c.Backoff, err = cli.ParseInstant(first); err != nil {
		return fmt.Errorf("%s: %w", first, err)
	}
	c.Factor, c.Longest, c.Jitter = 1, 0, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		if err := setBackoff(part, c); err != nil {
			return err
		}
	}
	return nil
}

// setBackoff parses a part after the first delay.
func setBackoff(part string, c *engines.Client) (err error) {
	name, value, given := strings.Cut(part, "=")
	factor, isFactor := strings.CutPrefix(part, "x")
	switch {
	case isFactor:
		if c.Factor, err = strconv.ParseFloat(factor, 64); err != nil || !(c.Factor >= 1) || math.IsInf(c.Factor, 0) {
			return fmt.Errorf("%s: must be a factor of at least 1, as x2", part)
		}
	case name == "max" && given:
		if c.Longest, err = cli.ParseInstant(value); err != nil || c.Longest == 0 {
			return fmt.Errorf("%s: must be a time above 0", part)
		}
	case part == "jitter":
		c.Jitter = 1
	case name == "jitter":
		if c.Jitter, err = strconv.ParseFloat(value, 64); err != nil || !(c.Jitter >= 0 && c.Jitter <= 1) {
			return fmt.Errorf("%s: must be a share of 0 to 1", part)
		}
	default:
		return excerpt.Errorf("%q: expected xFACTOR, max=TIME or jitter=SHARE%s", part, nearest.Ask(name, []string{"max", "jitter"}))
	}
	return nil
}
