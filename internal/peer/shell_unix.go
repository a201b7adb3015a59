//go:build unix

package peer

import (
	"os/exec"
	"syscall"
)

// shellCommand returns a command that runs a line in the shell. shellCommand uses a separate process group, so that
// Ctrl-C in the terminal does not reach the process.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killGroup kills the shell, even if it has changed its group, and all processes in its original group.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Process.Kill()
}
