package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/licenses"
	"github.com/replay-llm/replay/internal/optional"
)

// smallProgram is a small program for test releases. smallProgram prints the version in the format that checkVersion
// reads.
const smallProgram = `package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
)

func makePage(path string) {
	program, _ := os.Executable()
	page, err := os.ReadFile(filepath.Join(filepath.Dir(program), "explorer.html"))
	if err == nil {
		err = os.WriteFile(path, page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if i := slices.Index(os.Args, "--html"); i > 0 {
		makePage(os.Args[i+1])
		return
	}
	info, _ := debug.ReadBuildInfo()
	commit, modified := "", "false"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value
		}
	}
	version := info.Main.Version
	if len(version) > 20 {
		version = "devel"
	}
	fmt.Printf("{\"version\":%q,\"commit\":%q,\"modified\":%s}\n", version, commit, modified)
}
`

const smallExplorer = `package main

import (
	"flag"
	"os"
)

func main() {
	out := flag.String("out", "", "")
	flag.Parse()
	os.WriteFile(*out, []byte("<!doctype html>\n"), 0o644)
}
`

const smallManual = `package main

import (
	"flag"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "")
	flag.String("date", "", "")
	flag.String("version", "", "")
	flag.Parse()
	path := filepath.Join(*out, "man", "NAME.1")
	os.MkdirAll(filepath.Dir(path), 0o755)
	os.WriteFile(path, []byte(".TH NAME 1\n"), 0o644)
}
`

// makeRepository returns a repository with the small programs, and a function that runs git in it.
func makeRepository(t *testing.T) (dir string, git func(args ...string)) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{"go.mod": "module example.com/small\n\ngo 1.24\n", "LICENSE": "free\n", "README.md": "small\n", "CHANGELOG.md": "none\n"}
	files["cmd/explorer/main.go"] = smallExplorer
	files["python/README.md"], files["python/src/replay/__init__.py"], files["python/src/replay/py.typed"] = "# small\n", "x = 1\n", ""
	for _, name := range listPrograms() {
		files[folderOf(name)+"/main.go"] = smallProgram
		files[folderOf(name)+"/manual/main.go"] = strings.ReplaceAll(smallManual, "NAME", name)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git = func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet")
	git("add", "-A")
	git("commit", "--quiet", "-m", "all")
	return dir, git
}

// A release contains all files, built from the commit only. A second build gives the same bytes.
func TestRelease(t *testing.T) {
	optional.Program(t, "git", "--version")
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the image requires a program for linux")
	}
	dir, git := makeRepository(t)
	here := platform{runtime.GOOS, runtime.GOARCH}
	r, err := newRelease(dir, "HEAD", []string{here.String()})
	if err != nil {
		t.Fatal(err)
	}
	if r.tagged() || r.name() != "replay_devel-"+r.commit[:12] {
		t.Errorf("without a tag: %s", r.name())
	}
	git("tag", "v1.2.3-rc.1")
	git("tag", "v1.2.3")
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = newRelease(dir, "HEAD", []string{here.String()}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "bin", "dist") // bin is missing in a clone
	if err := r.makeInto(out); err != nil {
		t.Fatal(err)
	}
	if err := r.checkAgain(out); err != nil {
		t.Error(err)
	}
	if err := r.makeInto(out); err != nil {
		t.Errorf("over a release: %v", err)
	}
	var names []string
	for line := range strings.Lines(readText(t, out, "SHA256SUMS")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(readText(t, out, name)))); got != sum {
			t.Errorf("%s: %s, want %s", name, got, sum)
		}
		names = append(names, name)
	}
	base := "replay_1.2.3_linux_" + runtime.GOARCH
	wheel := "replay_llm-1.2.3-py3-none-manylinux2014_MACHINE.manylinux_2_17_MACHINE.musllinux_1_1_MACHINE.whl"
	wheel = strings.ReplaceAll(wheel, "MACHINE", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH])
	if want := []string{base + ".tar.gz", base + ".cdx.json", wheel, "replay_1.2.3_image.tar", "explorer.html", "replay.rb"}; !slices.Equal(names, want) {
		t.Errorf("made %v, want %v", names, want)
	}
	packed := readTar(t, []byte(readText(t, out, base+".tar.gz")), true)
	for name, want := range map[string]string{"README.md": "small\n", "man/replay-live.1": ".TH replay-live 1\n", "LICENSES-OF-LIBRARIES.txt": "", "LICENSE": "free\n", "CHANGELOG.md": "none\n", "explorer.html": "<!doctype html>\n"} {
		if got, ok := packed[base+"/"+name]; !ok || string(got) != want {
			t.Errorf("%s in the archive: %q, want %q", name, got, want)
		}
	}
	formula := readText(t, out, "replay.rb")
	sum := strings.Fields(readText(t, out, "SHA256SUMS"))[0]
	for _, want := range []string{`url "` + sourceURL + "/releases/download/v1.2.3/" + base + `.tar.gz"`, `sha256 "` + sum + `"`, `version "1.2.3"`, "on_linux do"} {
		if !strings.Contains(formula, want) {
			t.Errorf("no %s in\n%s", want, formula)
		}
	}
	checkWheel(t, []byte(readText(t, out, wheel)), packed[base+"/replay"])
	checkImage(t, []byte(readText(t, out, "replay_1.2.3_image.tar")), packed[base+"/replay"])
	checkBill(t, []byte(readText(t, out, base+".cdx.json")))
}

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readTar returns the files of a tar archive.
func readTar(t *testing.T, data []byte, packed bool) map[string][]byte {
	t.Helper()
	var in io.Reader = bytes.NewReader(data)
	if packed {
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		in = z
	}
	files := make(map[string][]byte)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// checkImage follows an image layout from its index to the programs. Each part must exist with its digest and its
// length.
func checkImage(t *testing.T, image, program []byte) {
	t.Helper()
	files := readTar(t, image, false)
	blob := func(d descriptor) []byte {
		data, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if !ok || len(data) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(data)) != d.Digest {
			t.Fatalf("part %+v: %d bytes, there: %v", d, len(data), ok)
		}
		return data
	}
	decode := func(data []byte, value any) {
		if err := json.Unmarshal(data, value); err != nil {
			t.Fatal(err)
		}
	}
	var top, index, m manifest
	var config imageConfig
	decode(files["index.json"], &top)
	decode(blob(top.Manifests[0]), &index)
	decode(blob(index.Manifests[0]), &m)
	decode(blob(*m.Config), &config)
	layer := blob(m.Layers[0])
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || fmt.Sprintf("sha256:%x", sha256.Sum256(plain)) != config.Root.DiffIDs[0] {
		t.Errorf("%v: the layer is not %v", err, config.Root.DiffIDs)
	}
	in := readTar(t, layer, true)
	if !bytes.Equal(in["replay"], program) || len(program) == 0 || len(in["replay-live"]) == 0 || len(in) != 4 {
		t.Errorf("the image holds %d files", len(in))
	}
	if config.Config.Entrypoint[0] != "/replay" || config.Config.User == "" || config.Architecture != runtime.GOARCH || index.Manifests[0].Platform["architecture"] != runtime.GOARCH {
		t.Errorf("%+v", config)
	}
}

// checkBill checks that each component that a bill refers to is described once.
func checkBill(t *testing.T, text []byte) {
	t.Helper()
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{b.Metadata.Component.Ref: true}
	for _, c := range b.Components {
		if known[c.Ref] || c.Name == "" {
			t.Errorf("component %+v", c)
		}
		known[c.Ref] = true
	}
	for _, d := range b.Depends {
		for _, on := range append(d.On, d.Ref) {
			if !known[on] {
				t.Errorf("%s is not described", on)
			}
		}
	}
	if std := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"); !known[std] || !known["replay-live"] || b.Format != "CycloneDX" {
		t.Errorf("no %s in\n%s", std, text)
	}
}

// Archives do not depend on the order of the files. All files have the same time, and programs are executable.
func TestArchives(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	files := []file{{name: "b/x", data: []byte("x")}, {name: "a", data: []byte("run"), program: true}}
	turned := []file{files[1], files[0]}
	for name, pack := range map[string]func(string, []file, time.Time) ([]byte, error){"tar": packTar, "zip": packZip} {
		one, err := pack("f", files, at)
		other, err2 := pack("f", turned, at)
		if err != nil || err2 != nil || !bytes.Equal(one, other) {
			t.Errorf("%s: %v, %v; the same: %v", name, err, err2, bytes.Equal(one, other))
		}
		if later, _ := pack("f", files, at.Add(time.Hour)); bytes.Equal(one, later) {
			t.Errorf("%s: has no time", name)
		}
	}
	packed, _ := packZip("f", files, at)
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil || len(z.File) != 2 || z.File[0].Name != "f/a" || !z.File[0].Modified.Equal(at) {
		t.Errorf("%v: %+v", err, z)
	}
	packed, _ = packTar("f", files, at)
	if in := readTar(t, packed, true); string(in["f/a"]) != "run" || string(in["f/b/x"]) != "x" {
		t.Errorf("%v", in)
	}
}

// checkHeader rejects programs of different platforms and files that are not programs.
func TestCheckHeader(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for _, p := range []platform{{runtime.GOOS, other}, {"windows", "amd64"}, {"darwin", "arm64"}} {
		if p.system == runtime.GOOS && p.processor == runtime.GOARCH {
			continue
		}
		if err := checkHeader(program, p); err == nil {
			t.Errorf("%v takes a program for %s/%s", p, runtime.GOOS, runtime.GOARCH)
		}
	}
	for _, p := range []platform{{"linux", "amd64"}, {"windows", "arm64"}, {"darwin", "arm64"}} {
		if err := checkHeader([]byte("#!/bin/sh\n"), p); err == nil || !strings.Contains(err.Error(), "is no program for "+p.String()) {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// Wrong platforms, folders and licenses are rejected with an error that names the problem. The checks of this test do
// not require git.
func TestRefusals(t *testing.T) {
	if _, err := newRelease(t.TempDir(), "HEAD", []string{"plan9/amd64"}); err == nil || !strings.Contains(err.Error(), `"plan9/amd64": must be linux`) {
		t.Error(err)
	}
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := new(release).makeInto(taken); err == nil || !strings.Contains(err.Error(), "has other files than a release") || readText(t, taken, "thesis.txt") != "" {
		t.Error(err)
	}
	if _, err := licenses.Join(map[string]string{"example.com/m v1": t.TempDir()}); err == nil || !strings.Contains(err.Error(), "example.com/m v1: no license") {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte("free\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := licenses.Join(map[string]string{"example.com/m v1": dir}); err != nil || string(text) != "==== example.com/m v1: LICENSE.md\n\nfree\n\n" {
		t.Errorf("%v: %q", err, text)
	}
}
