package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// delayCollection lets the heap grow to some 40 MiB before the first garbage collection, since most replays end before
// that. Later collections follow Go's default pace. GOGC, if it is set, wins.
func delayCollection() {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	const usual, patient = 100, 1000 // percent; the heap's minimum is 4 MiB for the usual
	debug.SetGCPercent(patient)
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { debug.SetGCPercent(usual) })
}

// DelayCollectionMore lets the heap grow to some 80 MiB instead, unless garbage
// has been collected already. What is kept of a run takes memory too. It is no
// garbage before it is written.
func DelayCollectionMore() {
	const patient = 2000
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if _, set := os.LookupEnv("GOGC"); !set && m.NumGC == 0 {
		debug.SetGCPercent(patient)
	}
}

// ManyReplays lets the garbage collector wait longer than usual: a command of
// many replays makes and drops much, and has little that stays. The second
// collection settles it, since the first brings Go's own pace back
// (delayCollection).
func ManyReplays() {
	if _, set := os.LookupEnv("GOGC"); !set {
		waitCollections(2)
	}
}

func waitCollections(collections int) {
	if collections == 0 {
		return
	}
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {
		debug.SetGCPercent(800)
		waitCollections(collections - 1)
	})
}
