package online

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timerFD is an alarm with a kernel timer. timerFD is read through Go's poller, so that a sleep blocks no thread.
type timerFD struct {
	fd   int
	file *os.File // owns fd
}

// newAlarm uses Go's timers if the kernel provides none, for example with too many open files.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newSleeper()
	}
	return &timerFD{fd, os.NewFile(uintptr(fd), "timerfd")}
}

func (t *timerFD) set(d time.Duration) {
	// The call fails only for values out of range.
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

func (t *timerFD) wait() {
	var expirations [8]byte
	if _, err := t.file.Read(expirations[:]); err != nil {
		time.Sleep(time.Millisecond) // the caller reads the clock again
	}
}

func (t *timerFD) close() { t.file.Close() }
