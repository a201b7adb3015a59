// Package bench contains benchmarks of whole replays. The cases are those of the comparison with the reference.
//
//	go test ./tools/bench -run '^$' -bench Replay
//	go test ./tools/bench -run '^$' -bench Replay -rows 'KV router' -profiles DIR
//
// A replay starts with the workload in memory and ends with the report, like the time in the reference's report. Read
// replay_test.go, workload_test.go, scale_test.go.
package bench

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

var (
	rows     = flag.String("rows", "", "only rows with a title or name that this regular expression matches")
	profiles = flag.String("profiles", "", "directory for a CPU profile of each row")
)

func BenchmarkReplay(b *testing.B) {
	pattern, err := regexp.Compile(*rows)
	if err != nil {
		b.Fatal(err)
	}
	matched := false
	for _, r := range row.All() {
		if !pattern.MatchString(r.Title) && !pattern.MatchString(r.Name()) {
			continue
		}
		matched = true
		b.Run(r.Name(), func(b *testing.B) { benchmark(b, &r) })
	}
	if !matched {
		b.Fatalf("-rows %q matches no row", *rows)
	}
}

// benchmark replays a row repeatedly.
func benchmark(b *testing.B, r *row.Row) {
	w := workload(b, r)
	cfg := config(b, r, w)
	report := replay(b, cfg) // the first replay fills the caches
	stop := profile(b, r)
	for b.Loop() {
		replay(b, cfg)
	}
	stop()
	if report.Completed != len(w.Turns) {
		b.Fatalf("%d of %d requests completed", report.Completed, len(w.Turns))
	}
	each := float64(b.Elapsed()) / float64(b.N)
	b.ReportMetric(float64(len(w.Turns))/(each/1e9), "requests/s")
	b.ReportMetric(each/float64(report.OutputTokens), "ns/token")
}

// profile starts a CPU profile of the row if -profiles is set. profile returns a function that stops the profile.
func profile(b *testing.B, r *row.Row) (stop func()) {
	if *profiles == "" {
		return func() {}
	}
	if err := os.MkdirAll(*profiles, 0o755); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(*profiles, strings.ReplaceAll(r.Name(), "/", ",")+".pprof"))
	if err != nil {
		b.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
