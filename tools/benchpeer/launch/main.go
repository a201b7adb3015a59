// Command launch runs a command and writes its time and its peak memory.
//
//	launch RESULT COMMAND [ARGUMENT]...
//
// RESULT gets three numbers: the wall time in ns, the peak of resident memory in the unit of the system, and the exit
// code.
//
// Command launch is a separate program because a small program is required. On Linux the peak of a process starts
// with the peak of its parent. The larger peak of the measuring program would hide the peak of the command.
package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		exitWith("must be a file for the result and a command")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	started := time.Now()
	p, err := os.StartProcess(os.Args[2], os.Args[2:], &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		exitWith(err.Error())
	}
	go func() { _ = p.Signal(<-signals) }() // the process may have ended already
	state, err := p.Wait()
	took := time.Since(started)
	if err != nil {
		exitWith(err.Error())
	}
	peak := int64(0)
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss
	}
	line := strconv.FormatInt(int64(took), 10) + " " + strconv.FormatInt(peak, 10) + " " + strconv.Itoa(state.ExitCode()) + "\n"
	if err := os.WriteFile(os.Args[1], []byte(line), 0o644); err != nil {
		exitWith(err.Error())
	}
}

// exitWith avoids the package fmt to keep the program small.
func exitWith(why string) {
	_, _ = os.Stderr.WriteString("launch: " + why + "\n")
	os.Exit(1)
}
