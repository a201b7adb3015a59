package tidy

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers returns the rooms from the lowest to the highest layer. A room is a folder with the packages below it. A
// package may only import packages of lower layers. Packages in nested rooms belong to the deepest room.
func layers() [][]string {
	return [][]string{
		{"internal/excerpt", "internal/json", "internal/stable"},
		{"internal/invariant"},
		{"internal/accuracy", "internal/bell", "internal/bitset", "internal/certtest", "internal/changes", "internal/clone", "internal/credential", "internal/decimal", "internal/exact", "internal/file", "internal/heap", "internal/labels", "internal/licenses", "internal/listen", "internal/long", "internal/nearest", "internal/optional", "internal/parquetfile", "internal/peer", "internal/poll", "internal/probe", "internal/script", "internal/sliding", "internal/table", "internal/terminal", "sim/blockhash"},
		{"internal/httpfault", "internal/mux", "internal/plausible", "internal/vllmpaths", "internal/wire", "schema", "sim/prompt"},
		{"sim"},
		{"scheduler/optables"},
		{"internal/formula", "scheduler/hardware"},
		{"scheduler/silicon"},
		{"scheduler/timing"},
		{"scheduler"},
		{"scheduler/blocks", "scheduler/lockstep"},
		{"scheduler/custom", "scheduler/schedulertest", "scheduler/sglang", "scheduler/trtllm", "scheduler/vllm"},
		{"replay/engineargs"},
		{"router", "loadgen", "replay/autoscale", "replay/caches", "replay/collector", "replay/deployment"},
		{"replay/engines"},
		{"replay/harness"},
		{"replay/offline", "replay/online"},
		{"replay"},
		{"plan", "report", "calibrate"},
		{"live/cancel", "live/fault", "live/measure", "live/tcp", "live/telemetry"},
		{"live/link"},
		{"live/drt", "live/kvevents", "live/rendezvous"},
		{"live/engine"},
		{"live/conformance", "live/eventplane", "live/openai", "live/route"},
		{"live/cluster", "live/drive", "live/frontend", "live/mocker", "live/record"},
		{"live/standalone"},
		{"live/sglang", "live/vllm"},
		{"internal/cmd", "internal/reference"},
		{"cmd/explorer", "cmd/replay", "live/cmd/replay-live", "live/tutorial", "docs", "examples"},
		{"tools"},
	}
}

// strangers returns forbidden imports of lower layers, by room. Packages that read files and results do not run
// simulations. Packages that simulate do not serve requests.
func strangers() map[string][]string {
	simulations := []string{"replay/offline", "replay/online"}
	return map[string][]string{
		"report":       simulations,
		"calibrate":    append(simulations, "loadgen", "router"),
		"internal/cmd": {"live"},
		"cmd/replay":   {"live"},
		"cmd/explorer": {"live"},
		"tools":        {"live"},
		"examples":     {"live"},
	}
}

// shared returns exceptions from strangers, by room. calibrate reads the results of load generators and spans with
// the packages of the trace readers, but creates no workload.
func shared() map[string][]string {
	return map[string][]string{"calibrate": {"loadgen/formats/entries", "loadgen/formats/scan"}}
}

// findRoom returns the layer and the name of the room that contains a package.
func findRoom(dir string) (int, string) {
	for d := dir; d != "."; d = path.Dir(d) {
		for level, names := range layers() {
			if slices.Contains(names, d) {
				return level, d
			}
		}
	}
	return -1, ""
}

// A room imports only rooms of lower layers. Rooms of the same layer do not import each other.
func TestImportsPointDown(t *testing.T) {
	rooms := make(map[string]bool)
	homeless := make(map[string]bool)
	for _, s := range parseAll(t) {
		if s.dir() == "internal/tidy" || s.foreign() {
			continue
		}
		level, name := findRoom(s.dir())
		rooms[name] = true
		if level < 0 {
			homeless[s.dir()] = true
		}
		if level < 0 || s.test {
			continue
		}
		for _, target := range s.ours(t) {
			below, other := findRoom(target)
			if other != name && below >= level {
				t.Errorf("%s imports %s, which is not below %s", s.path, target, name)
			}
			for _, folder := range strangers()[name] {
				if isWithin(target, []string{folder}) && !slices.Contains(shared()[name], target) {
					t.Errorf("%s imports %s, and %s has nothing to do with %s", s.path, target, name, folder)
				}
			}
		}
	}
	for dir := range homeless {
		t.Errorf("%s is in no layer", dir)
	}
	for _, names := range layers() {
		for _, name := range names {
			if !rooms[name] {
				t.Errorf("the layers list %s, where no Go file is", name)
			}
		}
	}
}

// Folders of the same parent folder do not import each other in a cycle. The package of the parent folder itself is
// included.
func TestFoldersHaveNoCircles(t *testing.T) {
	graphs := make(map[string]map[string]map[string]bool) // imported entries by folder and entry
	for _, s := range parseAll(t) {
		if s.test {
			continue
		}
		for _, target := range s.ours(t) {
			parent, from, to := splitAt(s.dir(), target)
			if from == to {
				continue
			}
			if graphs[parent] == nil {
				graphs[parent] = make(map[string]map[string]bool)
			}
			if graphs[parent][from] == nil {
				graphs[parent][from] = make(map[string]bool)
			}
			graphs[parent][from][to] = true
		}
	}
	for parent, graph := range graphs {
		if circle := findCircle(graph); circle != nil {
			t.Errorf("in %s: %s", parent, strings.Join(circle, " imports "))
		}
	}
}

// splitAt returns the deepest folder that contains both packages, and the entries of this folder that contain each
// package. The entry "." is the package of the folder itself. The rooms of internal are treated as top-level folders,
// because they belong to different layers.
func splitAt(a, b string) (parent, from, to string) {
	x, y := splitPath(a), splitPath(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	from, to = ".", "."
	if n < len(x) {
		from = x[n]
	}
	if n < len(y) {
		to = y[n]
	}
	return path.Join(append([]string{"."}, x[:n]...)...), from, to
}

// splitPath splits a path into folders. internal/ and the next folder are one element.
func splitPath(dir string) []string {
	if below, ok := strings.CutPrefix(dir, "internal/"); ok {
		room, rest, deeper := strings.Cut(below, "/")
		if !deeper {
			return []string{"internal/" + room}
		}
		return append([]string{"internal/" + room}, strings.Split(rest, "/")...)
	}
	return strings.Split(dir, "/")
}

// findCircle returns the entries of an import cycle, with the first entry repeated at the end, or nil.
func findCircle(graph map[string]map[string]bool) []string {
	done := make(map[string]bool)
	var trail []string
	var visit func(string) []string
	visit = func(at string) []string {
		if i := slices.Index(trail, at); i >= 0 {
			return append(slices.Clone(trail[i:]), at)
		}
		if done[at] {
			return nil
		}
		done[at] = true
		trail = append(trail, at)
		defer func() { trail = trail[:len(trail)-1] }()
		for to := range graph[at] {
			if circle := visit(to); circle != nil {
				return circle
			}
		}
		return nil
	}
	for from := range graph {
		if circle := visit(from); circle != nil {
			return circle
		}
	}
	return nil
}

// findCircle finds a cycle.
func TestFindCircle(t *testing.T) {
	set := func(names ...string) map[string]bool {
		m := make(map[string]bool)
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	if c := findCircle(map[string]map[string]bool{"a": set("b", "c"), "b": set("c"), "c": set("d")}); c != nil {
		t.Errorf("%v is no circle", c)
	}
	c := findCircle(map[string]map[string]bool{"a": set("b"), "b": set("c"), "c": set("b")})
	if len(c) != 3 || c[0] != c[2] {
		t.Errorf("got %v, want b and c", c)
	}
	if p, from, to := splitAt("scheduler/vllm/reference", "scheduler/vllm"); p != "scheduler/vllm" || from != "reference" || to != "." {
		t.Errorf("got %s, %s, %s", p, from, to)
	}
}

// maxTop is the maximum number of top-level folders.
const maxTop = 17 // includes schema (imported by all packages with settings) and python (the usual folder of a Python package)

func TestTopLevelIsShort(t *testing.T) {
	if top := listTop(t); len(top) > maxTop {
		t.Errorf("%d folders at the top, want at most %d: %s", len(top), maxTop, strings.Join(top, " "))
	}
}

// listTop returns the top-level folders, except folders that git ignores.
func listTop(t *testing.T) (top []string) {
	t.Helper()
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(strings.Fields(string(ignored)), "/"+e.Name()+"/") {
			top = append(top, e.Name())
		}
	}
	return top
}
