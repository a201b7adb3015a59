// Command launch runs a command and writes how long it took and how much memory.
//
//	launch RESULT COMMAND [ARGUMENT]...
//
// RESULT gets three numbers: the real time in ns, the peak of resident memory as
// the system counts it, and the exit code.
//
// It is a separate program because it is small. On Linux the peak of a process begins with that of its parent. The peak
// of the program that prints the tables would hide ours.
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
	go func() { _ = p.Signal(<-signals) }() // it may have ended by then
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

// exitWith does without fmt, to stay small.
func exitWith(why string) {
	_, _ = os.Stderr.WriteString("launch: " + why + "\n")
	os.Exit(1)
}
