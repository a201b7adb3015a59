package online

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timerFD is an alarm of the kernel. It is read through Go's poller, so that a
// sleep takes no thread.
type timerFD struct {
	fd   int
	file *os.File // owns fd
}

// newAlarm falls back on Go's timers where the kernel gives none, as when there
// are too many open files.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newSleeper()
	}
	return &timerFD{fd, os.NewFile(uintptr(fd), "timerfd")}
}

func (t *timerFD) set(d time.Duration) {
	// It fails for values out of range only.
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

func (t *timerFD) wait() {
	var expirations [8]byte
	if _, err := t.file.Read(expirations[:]); err != nil {
		time.Sleep(time.Millisecond) // the sleeper reads the clock again
	}
}

func (t *timerFD) close() { t.file.Close() }
