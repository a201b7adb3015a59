package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// delayCollection lets the heap grow to about 40 MiB before the first garbage collection, because most replays end
// before that. Later collections use Go's default setting. The environment variable GOGC has precedence.
func delayCollection() {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	const usual, patient = 100, 1000 // percent; with usual, the minimum heap is 4 MiB
	debug.SetGCPercent(patient)
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { debug.SetGCPercent(usual) })
}

// DelayCollectionMore lets the heap grow to about 80 MiB before the first garbage collection, unless one has already
// run. DelayCollectionMore is for runs that record data, because recorded data stay in memory until they are written.
func DelayCollectionMore() {
	const patient = 2000
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if _, set := os.LookupEnv("GOGC"); !set && m.NumGC == 0 {
		debug.SetGCPercent(patient)
	}
}

// ManyReplays makes garbage collections less frequent. ManyReplays is for commands with many replays, which allocate
// much memory and keep little. The setting applies after the second collection, because delayCollection restores Go's
// default at the first one.
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
