package main

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// distribution is the name of the package replay for pip.
const distribution = "replay-llm"

// wheelMetadata is the metadata of a wheel, without the description. pyarrow has no build for Windows on arm64, so
// Polars reads the files there.
const wheelMetadata = `Metadata-Version: 2.1
Name: ` + distribution + `
Version: %s
Summary: Simulate clusters of LLM inference engines: replays, sweeps and plans as tables
Project-URL: Source, ` + sourceURL + `
License: Apache-2.0
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: System :: Benchmark
Classifier: Typing :: Typed
Requires-Python: >=3.9
Requires-Dist: pyarrow>=14; platform_system != "Windows" or platform_machine != "ARM64"
Provides-Extra: pandas
Requires-Dist: pandas>=2; extra == "pandas"
Provides-Extra: polars
Requires-Dist: polars>=1; extra == "polars"
Description-Content-Type: text/markdown

%s`

// makeWheel returns the wheel of a platform. The wheel contains the Python package and the program.
func (r *release) makeWheel(p platform, program file, legal []byte) (file, error) {
	version, err := pythonVersion(r.version)
	if err != nil {
		return file{}, err
	}
	tags, err := wheelTags(p, program.data)
	if err != nil {
		return file{}, err
	}
	files, err := r.gatherPackage()
	if err != nil {
		return file{}, err
	}
	program.name = "replay/bin/" + program.name
	bill, err := r.makeBill(p, []file{{name: path.Base(program.name), data: program.data}})
	if err != nil {
		return file{}, err
	}
	page, err := os.ReadFile(filepath.Join(r.source, "python", "README.md"))
	if err != nil {
		return file{}, err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return file{}, err
	}
	base := strings.ReplaceAll(distribution, "-", "_") + "-" + version
	about := func(name string, data []byte) {
		files = append(files, file{name: base + ".dist-info/" + name, data: data})
	}
	files = append(files, program)
	about("METADATA", fmt.Appendf(nil, wheelMetadata, version, page))
	about("WHEEL", []byte("Wheel-Version: 1.0\nGenerator: replay-release\nRoot-Is-Purelib: false\nTag: py3-none-"+strings.Join(tags, "\nTag: py3-none-")+"\n"))
	about("entry_points.txt", []byte("[console_scripts]\nreplay = replay.__main__:main\n"))
	about("licenses/LICENSE", license)
	about("licenses/"+legalFile, legal)
	about("sboms/replay.cdx.json", bill)
	about("RECORD", makeRecord(files, base+".dist-info/RECORD"))
	packed, err := packZip("", files, r.time)
	return file{name: base + "-py3-none-" + strings.Join(tags, ".") + ".whl", data: packed}, err
}

// gatherPackage returns the files of the Python package, without the program.
func (r *release) gatherPackage() (all []file, err error) {
	root := filepath.Join(r.source, "python", "src")
	err = filepath.WalkDir(filepath.Join(root, "replay"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all = append(all, file{name: filepath.ToSlash(name), data: data})
		return err
	})
	return all, err
}

// makeRecord returns the RECORD: all files with their checksums, and RECORD itself without a checksum.
func makeRecord(files []file, own string) []byte {
	var b bytes.Buffer
	for _, f := range sortFiles(files) {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&b, "%s,,\n", own)
	return b.Bytes()
}

// pythonVersion returns a version in Python's format: 1.2.3-rc.1 is 1.2.3rc1.
func pythonVersion(version string) (string, error) {
	if commit, ok := strings.CutPrefix(version, "devel-"); ok {
		return "0.0.0.dev0+g" + commit, nil
	}
	m := regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?$`).FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("version %s: expected one that Python has too, as 1.2.3 or 1.2.3-rc.1", version)
	}
	if m[2] == "" {
		return m[1], nil
	}
	return m[1] + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]] + m[3], nil
}

// wheelTags returns the platform tags of a wheel for pip. A program without libraries runs on every Linux
// distribution.
func wheelTags(p platform, program []byte) ([]string, error) {
	switch p.system {
	case "linux":
		machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.processor]
		return []string{"manylinux2014_" + machine, "manylinux_2_17_" + machine, "musllinux_1_1_" + machine}, nil
	case "darwin":
		machine := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[p.processor]
		major, err := leastMacOS(program)
		return []string{fmt.Sprintf("macosx_%d_0_%s", major, machine)}, err
	}
	return []string{"win_" + p.processor}, nil
}

// leastMacOS returns the oldest macOS version that a program supports.
func leastMacOS(program []byte) (int, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return 0, err
	}
	const buildVersion = 0x32 // LC_BUILD_VERSION: command, size, platform, oldest system
	for _, load := range f.Loads {
		if raw := load.Raw(); len(raw) >= 16 && f.ByteOrder.Uint32(raw) == buildVersion {
			return int(f.ByteOrder.Uint32(raw[12:]) >> 16), nil
		}
	}
	return 0, fmt.Errorf("a program for macOS has no minimum version, expected LC_BUILD_VERSION")
}

// makeWheels makes only the wheels of all platforms in a folder.
func (r *release) makeWheels(out, work string) error {
	legal, err := r.gatherLicenses()
	if err != nil {
		return err
	}
	var sums []checksum
	for _, p := range r.platforms {
		programs, err := r.build(filepath.Join(work, "bin"), p, "replay")
		if err != nil {
			return err
		}
		wheel, err := r.makeWheel(p, programs[0], legal)
		if err != nil {
			return err
		}
		if sums, err = r.store(out, wheel, sums); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, sumsFile), formatSums(sums), 0o644)
}
