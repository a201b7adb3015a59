// Package version describes a build of a program: its commit, its Go release, and the engine releases with known
// rules.
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

// devel is the version of a build from a commit without a tag.
const devel = "devel"

// Document describes a build of a program.
type Document struct {
	Program string `json:"program"`
	Version string `json:"version"`  // tag of the commit such as v1.2.3, or devel
	Commit  string `json:"commit"`   // full or abbreviated hash of the commit; "": unknown
	Date    string `json:"date"`     // date of the commit in UTC; "": unknown
	Changed bool   `json:"modified"` // the checkout had uncommitted changes
	Go      string `json:"go"`
	System  string `json:"platform"` // such as linux/amd64
	// Rules has the oldest release of each set of rules, by engine.
	Rules   map[string][]string `json:"engine_rules"`
	Compat  []string            `json:"compat"` // valid values of --compat
	Formats Formats             `json:"formats"`
	Tables  *optables.Origin    `json:"operator_times"` // origin of the embedded operator times
}

// Formats are the versions of file formats that other programs read.
type Formats struct {
	Digest  string `json:"digest"`
	Run     int    `json:"run_directory"`
	Profile int    `json:"timing_profile"`
}

// newDocument returns the document for a program and its build information.
func newDocument(program string, build *debug.BuildInfo) *Document {
	tables, err := optables.Provenance()
	if err != nil {
		panic(err) // the file is embedded in the program
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

// readBuild adds the version information of the Go command. A build in a checkout has all information. A build of a
// downloaded module has only the version.
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

// listReleases returns the parts after prefix of all rule names with this prefix.
func listReleases(prefix string) []string {
	var releases []string
	for _, name := range engineargs.RuleNames() {
		if release, ok := strings.CutPrefix(name, prefix); ok {
			releases = append(releases, release)
		}
	}
	return releases
}
