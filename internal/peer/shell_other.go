//go:build !unix

package peer

import (
	"io"
	"os"
	"os/exec"
)

// shellCommand returns a command that runs a line in the shell.
func shellCommand(line string) *exec.Cmd { return exec.Command("cmd", "/C", line) }

// killGroup ends the shell.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// newPipes returns in and out. A read or write ends when all processes have closed the other end of the pipe.
func newPipes(in, out *os.File) (w io.WriteCloser, r io.ReadCloser, end func(), err error) {
	return in, out, func() {}, nil
}
