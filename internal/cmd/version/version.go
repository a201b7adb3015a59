// Package version describes a program: its commit, its Go release, and the releases of engines with known rules.
package version

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/timing"
)

// devel is the version of what was built from no tagged commit.
const devel = "devel"

// Document is what a program reports about itself.
type Document struct {
	Program string `json:"program"`
	Version string `json:"version"`  // the tag of its commit as v1.2.3, or devel
	Commit  string `json:"commit"`   // its whole name, or as much as is known of it; "" where nothing is
	Date    string `json:"date"`     // of the commit, in UTC; "" where it is not known
	Changed bool   `json:"modified"` // files differed from those of the commit
	Go      string `json:"go"`
	System  string `json:"platform"` // as linux/amd64
	// Rules holds the oldest release of each set of rules, by engine.
	Rules   map[string][]string `json:"engine_rules"`
	Compat  []string            `json:"compat"` // what --compat takes
	Formats Formats             `json:"formats"`
	Tables  *optables.Origin    `json:"operator_times"` // of the measured operator times in the program
}

// Formats are the versions of files for other programs, or later ones.
type Formats struct {
	Digest  string `json:"digest"`
	Run     int    `json:"run_directory"`
	Profile int    `json:"timing_profile"`
}

// newDocument returns the document of the program of a name and a build.
func newDocument(program string, build *debug.BuildInfo) *Document {
	tables, err := optables.Provenance()
	if err != nil {
		panic(err) // a file of the program itself
	}
	d := &Document{
		Program: program, Tables: tables, System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Rules:   map[string][]string{"vllm": listReleases("vllm-"), "sglang": listReleases("sglang-")},
		Compat:  []string{options.CompatRelease},
		Formats: Formats{Digest: rundir.DigestFormat, Run: rundir.Layout, Profile: timing.ProfileVersion},
	}
	d.readBuild(build)
	return d
}

// readBuild takes over what the Go command noted of the commit. It notes all of it
// in a checkout, and the version alone of a module that it has downloaded.
func (d *Document) readBuild(build *debug.BuildInfo) {
	d.Version = devel
	if build == nil {
		return
	}
	d.Go = build.GoVersion
	version, dirty := strings.CutSuffix(build.Main.Version, "+dirty")
	d.Changed = dirty
	pseudo := regexp.MustCompile(`^v.*[.-](\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)-([0-9a-f]{12})$`).FindStringSubmatch(version)
	switch {
	case pseudo != nil: // a commit without a tag
		d.Date = pseudo[1] + "-" + pseudo[2] + "-" + pseudo[3] + "T" + pseudo[4] + ":" + pseudo[5] + ":" + pseudo[6] + "Z"
		d.Commit = pseudo[7]
	case version != "" && version != "("+devel+")":
		d.Version = version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			d.Commit = s.Value
		case "vcs.time":
			d.Date = s.Value
		case "vcs.modified":
			d.Changed = s.Value == "true"
		}
	}
}

// listReleases returns what follows prefix in the names of rules that begin with it.
func listReleases(prefix string) []string {
	var releases []string
	for _, name := range engineargs.RuleNames() {
		if release, ok := strings.CutPrefix(name, prefix); ok {
			releases = append(releases, release)
		}
	}
	return releases
}
