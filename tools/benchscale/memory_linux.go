package main

import (
	"fmt"
	"os"
	"syscall"
)

// peakMemory returns the peak resident memory of a process, in MiB.
func peakMemory(state *os.ProcessState) string {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%.0f", float64(usage.Maxrss)/1024)
}
