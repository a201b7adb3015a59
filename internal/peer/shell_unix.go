//go:build unix

package peer

import (
	"os/exec"
	"syscall"
)

// shellCommand returns a line for the shell, in a group of its own: an interrupt at the terminal is for us.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killGroup ends the shell and what it has started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
