//go:build unix

package peer

import (
	"os/exec"
	"syscall"
)

// shellCommand returns a line for the shell, in another process group: an interrupt at the terminal does not reach it.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killGroup ends the shell, wherever it moved, and the processes that it has started and that stayed in its group.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Process.Kill()
}
