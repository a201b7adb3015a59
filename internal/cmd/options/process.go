package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router/policy"
)

// processFlag and timeoutFlag are the names of the flags for a router policy in a program.
const (
	processFlag = "policy-process"
	timeoutFlag = "policy-timeout"
)

func bindProcess(fs *pflag.FlagSet, p *policy.Process) {
	fs.StringVar(&p.Command, processFlag, "", "`command` of a program that chooses the worker of each request, over standard input and output.\nAlternatively its socket, unix:PATH or tcp:HOST:PORT (docs/policies.md)")
	fs.DurationVar(&p.Timeout, timeoutFlag, replay.ProcessTimeout, "maximum `time` that the program of --"+processFlag+" may take to answer")
}

// fillProcess sets a router policy in a program in spec.
func (c *cluster) fillProcess(spec *replay.Spec) error {
	p := c.process
	switch {
	case p.Command == "" && c.Changed(timeoutFlag):
		return c.Only(timeoutFlag, "with --"+processFlag)
	case p.Command == "" && c.Changed(processFlag):
		return cli.Usagef("--%s: the command is empty, must be a program", processFlag)
	case p.Command == "":
		return nil
	case p.Timeout < time.Millisecond:
		return cli.Usagef("--%s=%v: must be at least 1ms", timeoutFlag, p.Timeout)
	case c.IsLive() || c.IsCluster():
		return c.Only(processFlag, "with --mode offline: routers in real time are set by --router NAME")
	}
	if name := c.FirstChanged(append(RouterFlags(), "router", "router-config", policyFlag, pickerFlag)...); name != "" {
		return c.Only(name, "without --"+processFlag+": its program routes the requests")
	}
	spec.Router = &p
	return nil
}
