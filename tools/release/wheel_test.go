package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// checkWheel checks that the RECORD of a wheel lists every file with its checksum and size. checkWheel also checks
// that the wheel has the parts that pip requires.
func checkWheel(t *testing.T, wheel, program []byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		t.Fatal(err)
	}
	const about = "replay_llm-1.2.3.dist-info/"
	files, names := make(map[string]string), []string(nil)
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name], names = string(data), append(names, f.Name)
		if runs := f.Mode()&0o111 != 0; runs != (f.Name == "replay/bin/replay") {
			t.Errorf("%s: may be run: %v", f.Name, runs)
		}
	}
	var recorded []string
	for line := range strings.Lines(files[about+"RECORD"]) {
		part := strings.Split(strings.TrimSpace(line), ",")
		sum := sha256.Sum256([]byte(files[part[0]]))
		want := []string{part[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(files[part[0]]))}
		if part[0] == about+"RECORD" {
			want = []string{part[0], "", ""}
		}
		if !slices.Equal(part, want) {
			t.Errorf("RECORD: %v, want %v", part, want)
		}
		recorded = append(recorded, part[0])
	}
	slices.Sort(recorded)
	if !slices.Equal(recorded, names) {
		t.Errorf("RECORD has %v, the wheel %v", recorded, names)
	}
	for name, want := range map[string]string{
		"replay/__init__.py": "x = 1\n", "replay/py.typed": "", "replay/bin/replay": string(program), about + "licenses/LICENSE": "free\n",
		about + "entry_points.txt": "[console_scripts]\nreplay = replay.__main__:main\n",
	} {
		if got, ok := files[name]; !ok || got != want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
	if m := files[about+"METADATA"]; !strings.Contains(m, "\nName: replay-llm\nVersion: 1.2.3\n") || !strings.HasSuffix(m, "\n\n# small\n") {
		t.Errorf("METADATA:\n%s", m)
	}
	if w := files[about+"WHEEL"]; strings.Count(w, "\nTag: py3-none-") != 3 || !strings.Contains(w, "Root-Is-Purelib: false\n") {
		t.Errorf("WHEEL:\n%s", w)
	}
}

// A converted version has the order that pip requires, or is an error.
func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "0.1.0-alpha.2": "0.1.0a2", "0.1.0-beta3": "0.1.0b3", "devel-0123abcd": "0.0.0.dev0+g0123abcd",
	} {
		if got, err := pythonVersion(version); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
	for _, version := range []string{"1.2", "1.2.3-fast", "1.2.3+build"} {
		if got, err := pythonVersion(version); err == nil {
			t.Errorf("%s: %q, want an error", version, got)
		}
	}
}

// The tag of a macOS wheel has the oldest macOS version that the program supports.
func TestWheelTags(t *testing.T) {
	for p, want := range map[platform]string{
		{"linux", "arm64"}:   "manylinux2014_aarch64 manylinux_2_17_aarch64 musllinux_1_1_aarch64",
		{"windows", "arm64"}: "win_arm64", {"windows", "amd64"}: "win_amd64",
	} {
		if got, err := wheelTags(p, nil); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%v: %v, %v, want %s", p, got, err, want)
		}
	}
	program := []uint32{0xfeedfacf, 0x0100000c, 0, 2, 1, 24, 0, 0, 0x32, 24, 1, 13 << 16, 0, 0} // a header and LC_BUILD_VERSION
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, program); err != nil {
		t.Fatal(err)
	}
	if got, err := wheelTags(platform{"darwin", "arm64"}, b.Bytes()); err != nil || !slices.Equal(got, []string{"macosx_13_0_arm64"}) {
		t.Errorf("%v, %v", got, err)
	}
	b.Bytes()[32] = 0x33
	if got, err := wheelTags(platform{"darwin", "arm64"}, b.Bytes()); err == nil {
		t.Errorf("takes a program of no macOS for %v", got)
	}
}
