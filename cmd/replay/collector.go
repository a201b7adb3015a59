package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// manyReplays lets the garbage collector wait longer than usual: a command of
// many replays makes and drops much, and has little that stays. The second
// collection settles it, since the first brings Go's own pace back
// (delayCollection).
func manyReplays() {
	if _, set := os.LookupEnv("GOGC"); !set {
		patient(2)
	}
}

func patient(collections int) {
	if collections == 0 {
		return
	}
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {
		debug.SetGCPercent(800)
		patient(collections - 1)
	})
}
