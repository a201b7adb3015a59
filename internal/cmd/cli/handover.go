package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// liveProgram is the name of the program with the commands that serve requests.
const liveProgram = "replay-live"

// LiveCommand is a command of replay-live.
type LiveCommand struct{ Name, short string }

// LiveCommands returns the commands for simulated engines that only replay-live has.
func LiveCommands() []LiveCommand {
	return []LiveCommand{
		{"stack", "Run etcd and NATS, and list registered workers"},
		{"worker", "Serve a simulated engine as a worker process of a cluster"},
		{"frontend", "Serve the models of a cluster over HTTP"},
		{"vllm", "Serve simulated engines as vLLM's own HTTP server does"},
		{"sglang", "Serve simulated engines as SGLang's own HTTP server does"},
		{"kv-tail", "Print the KV events that a worker publishes"},
		{"conformance", "Check that the mocker meets the contract of a served engine"},
	}
}

// ServerCommands returns the commands of replay-live that connect to real servers.
func ServerCommands() []LiveCommand {
	return []LiveCommand{
		{"record", "Forward requests to a real server, and write a measured run"},
		{"drive", "Send a trace to a real server, and write a measured run"},
	}
}

// HandedOver returns a command of replay that runs replay-live. HandedOver accepts any flags.
func (c LiveCommand) HandedOver(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: c.Name, Short: c.short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.HandOver(cmd.Context()) },
	}
}

// HandOver runs replay-live with the same command line, streams, signals and exit code.
func (s Streams) HandOver(ctx context.Context) error {
	path, ok := findLive()
	if !ok {
		return Coded(exitNoLive, "%s: requires the program %s in the same folder or on the path: go install ./live/cmd/%s in a checkout",
			s.Args[0], liveProgram, liveProgram)
	}
	if s.terminal {
		if err := becomeProgram(path, s.Args); err != nil {
			return err
		}
	}
	return s.runChild(ctx, path)
}

// findLive returns the path of replay-live, in the folder of this program or on the PATH.
func findLive() (path string, ok bool) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), liveProgram)
		if runtime.GOOS == "windows" {
			beside += ".exe"
		}
		if path, err := exec.LookPath(beside); err == nil {
			return path, true
		}
	}
	path, err := exec.LookPath(liveProgram)
	return path, err == nil
}

// runChild runs the program at path as a child process. If ctx ends by a signal, the child process receives the same
// signal.
func (s Streams) runChild(ctx context.Context, path string) error {
	s.EndInOwnTime()
	cmd := exec.CommandContext(ctx, path, s.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	cmd.Cancel = func() error {
		if runtime.GOOS == "windows" {
			return cmd.Process.Kill()
		}
		return cmd.Process.Signal(signalOf(ctx))
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	return &CodedError{Code: cmd.ProcessState.ExitCode()}
}
