package tidy

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// mostModules is the maximum number of modules that the go.mod of the simulator requires, directly or indirectly. Do
// not increase this maximum.
const mostModules = 66

// Most modules are required only by tests and plotting packages of libraries. An exclude directive could remove such
// modules, but "go install" with a version rejects a module that has exclude directives.
func TestModulesAreFew(t *testing.T) {
	list := exec.Command("go", "list", "-m", "all")
	list.Dir, list.Env = "../..", append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Skipf("go list -m all: %v: requires the module cache or a network", err)
	}
	if n := strings.Count(string(out), "\n") - 1; n > mostModules {
		t.Errorf("the simulator requires %d modules, must be at most %d", n, mostModules)
	}
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "exclude" || word == "replace" {
			t.Errorf("go.mod: %s is not supported with go install github.com/replay-llm/replay/cmd/replay@latest", word)
		}
	}
}

// door lists the folders that may use a library.
type door struct {
	library string   // prefix of its import path
	rooms   []string // folders that may import it
	tests   bool     // only in tests and in packages for tests
}

// doors returns the door of every library. If several doors match a library, the door with the longest prefix
// applies.
func doors() []door {
	return []door{
		{library: "github.com/spf13/", rooms: []string{"cmd", "internal/cmd", "live/cmd", "tools/freeze"}}, // tools/freeze draws random values for all flags
		{library: "github.com/schollz/progressbar/v3", rooms: []string{"internal/cmd/cli"}},
		{library: "github.com/goccy/go-yaml", rooms: []string{"cmd", "internal/cmd", "live/cmd", "calibrate/measured", "scheduler/optables/wheel", "tools/schemas"}},
		{library: "github.com/goccy/go-json", rooms: []string{"internal/json"}},
		{library: "github.com/expr-lang/expr", rooms: []string{"internal/formula"}},
		{library: "github.com/zeebo/xxh3", rooms: []string{"sim/blockhash"}},
		{library: "github.com/zeebo/blake3", rooms: []string{"live/engine"}}, // digests in model cards
		{library: "github.com/klauspost/compress", rooms: []string{"loadgen", "scheduler/optables", "internal/parquetfile"}},
		{library: "gonum.org/v1/gonum", rooms: []string{"loadgen", "calibrate", "plan", "report/diff"}},
		{library: "github.com/parquet-go/parquet-go", rooms: []string{"report", "scheduler/optables", "internal/parquetfile"}},
		{library: "github.com/pierrec/lz4/v4", rooms: []string{"loadgen"}},
		{library: "golang.org/x/term", rooms: []string{"internal/cmd"}},
		{library: "golang.org/x/text", rooms: []string{"loadgen"}},
		{library: "golang.org/x/sync", rooms: []string{"report", "live", "calibrate"}},
		{library: "golang.org/x/sys", rooms: []string{"internal/peer", "replay/online", "internal/cmd", "cmd", "live/cmd"}},
		{library: "golang.org/x/net/html", rooms: []string{"tools/site"}},
		{library: "golang.org/x/net/netutil", rooms: []string{"live/frontend"}},
		{library: "github.com/nats-io/", rooms: []string{"live/drt"}},
		{library: "go.etcd.io/etcd/", rooms: []string{"live/drt"}},
		{library: "go.uber.org/zap", rooms: []string{"live/drt"}}, // etcd requires a logger; it is silent
		{library: "github.com/google/uuid", rooms: []string{"live/cancel"}},
		{library: "github.com/tinylib/msgp", rooms: []string{"live/kvevents", "live/eventplane"}},
		{library: "go.opentelemetry.io/", rooms: []string{"live/telemetry"}},
		{library: "go.opentelemetry.io/otel/sdk/trace", rooms: []string{"live/engine", "live/telemetry"}},
		{library: "github.com/prometheus/", rooms: []string{"live/telemetry"}},
		{library: "google.golang.org/grpc", rooms: []string{"live/drt", "live/telemetry"}},
		{library: "go.uber.org/goleak", rooms: []string{"live"}, tests: true},
		{library: "github.com/go-zeromq/zmq4", rooms: []string{"live/kvevents"}, tests: true}, // another implementation for tests
		{library: "github.com/santhosh-tekuri/jsonschema/", rooms: []string{"tools/schemas"}, tests: true},
		{library: "github.com/cockroachdb/datadriven", rooms: []string{"."}, tests: true},
	}
}

// findDoor returns the index of the door of a library, or -1.
func findDoor(all []door, library string) int {
	best := -1
	for i := range all {
		if strings.HasPrefix(library, all[i].library) && (best < 0 || len(all[i].library) > len(all[best].library)) {
			best = i
		}
	}
	return best
}

// Every library has a door, and every door is used.
func TestLibrariesHaveDoors(t *testing.T) {
	all := doors()
	used := make(map[string]bool) // keys are library and room
	for _, s := range parseAll(t) {
		if s.foreign() {
			continue
		}
		for _, target := range s.imports(t) {
			first, _, _ := strings.Cut(target, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(target, module) {
				continue
			}
			i := findDoor(all, target)
			if i < 0 {
				t.Errorf("%s imports %s, which has no door", s.path, target)
				continue
			}
			if all[i].tests && !s.test && !strings.HasSuffix(s.dir(), "test") {
				t.Errorf("%s imports %s, which is for tests", s.path, target)
			}
			entered := false
			for _, room := range all[i].rooms {
				if room == "." || strings.HasPrefix(s.path, room+"/") {
					entered, used[all[i].library+" "+room] = true, true
				}
			}
			if !entered {
				t.Errorf("%s imports %s, which has its door elsewhere", s.path, target)
			}
		}
	}
	for i := range all {
		for _, room := range all[i].rooms {
			if !used[all[i].library+" "+room] {
				t.Errorf("the doors list %s in %s, where nothing imports it", all[i].library, room)
			}
		}
	}
}
