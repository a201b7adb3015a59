//go:build !unix

package peer

import "os/exec"

// shellCommand returns a line for the shell.
func shellCommand(line string) *exec.Cmd { return exec.Command("cmd", "/C", line) }

// killGroup ends the shell.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
