// Command release makes the release of a commit. A release has archives of both programs for each platform, a
// container image and a formula for Homebrew. A release also has bills of materials, Python wheels, and the checksums
// of all files. The same commit gives the same bytes. CONTRIBUTING.md describes the files.
//
// GoReleaser makes reproducible archives too. By its documentation, GoReleaser requires syft for bills of materials,
// and uv or poetry for wheels, which do not contain the programs. The images of GoReleaser require Docker or, with
// ko, a base image from a registry. The wheels, the image without a base, and the comparison of two builds (-twice)
// would still need this command. Command release requires only a Go toolchain.
//
// Read main.go, build.go, archive.go, image.go, bill.go, formula.go, wheel.go.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	out := flag.String("out", "dist", "the `folder` to write to; the release that is there is replaced")
	commit := flag.String("commit", "HEAD", "the `commit` to release")
	platforms := flag.String("platforms", "", "a `list` of system/processor (default all)")
	twice := flag.Bool("twice", false, "make it again in another folder, and fail where one byte differs")
	wheels := flag.Bool("wheels", false, "make the wheels for Python alone")
	flag.Parse()
	r, err := newRelease(".", *commit, strings.FieldsFunc(*platforms, func(c rune) bool { return c == ',' }))
	if err == nil {
		r.onlyWheels = *wheels
		err = r.noteChanges()
	}
	if err == nil {
		err = r.makeInto(*out)
	}
	if err == nil && *twice {
		err = r.checkAgain(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// sumsFile is the last file of every release.
const sumsFile = "SHA256SUMS"

// makeInto makes all files of a release in the folder out, and creates missing parent folders. makeInto replaces an
// existing release only after all files are made. makeInto does not replace a folder without a release.
func (r *release) makeInto(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, sumsFile)); err != nil && len(entries) > 0 {
		return fmt.Errorf("-out: %s has other files than a release: must be a new folder, or a folder with %s", out, sumsFile)
	}
	parent := filepath.Dir(filepath.Clean(out))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(parent, ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := r.makeAll(staging); err != nil {
		return err
	}
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(staging, out)
}

// makeAll makes all files of a release in a folder.
func (r *release) makeAll(out string) error {
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.checkOut(filepath.Join(work, "source")); err != nil {
		return err
	}
	if r.onlyWheels {
		return r.makeWheels(out, work)
	}
	shared, err := r.gatherShared(filepath.Join(work, "shared"))
	if err != nil {
		return err
	}
	page, err := r.makeExplorer()
	if err != nil {
		return err
	}
	shared = append(shared, page)
	var images []imagePlatform
	var sums []checksum
	for _, p := range r.platforms {
		programs, err := r.build(filepath.Join(work, "bin"), p, listPrograms()...)
		if err != nil {
			return err
		}
		made, err := r.packPlatform(p, programs, shared)
		if err != nil {
			return err
		}
		for _, f := range made {
			if sums, err = r.store(out, f, sums); err != nil {
				return err
			}
		}
		if p.system == "linux" {
			images = append(images, imagePlatform{p, programs})
		}
	}
	rest, err := r.makeRest(images, page, sums)
	if err != nil {
		return err
	}
	for _, f := range rest {
		if sums, err = r.store(out, f, sums); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, sumsFile), formatSums(sums), 0o644)
}

// makeRest returns the files that concern several platforms.
func (r *release) makeRest(images []imagePlatform, page file, sums []checksum) ([]file, error) {
	var rest []file
	if len(images) > 0 {
		image, err := r.makeImage(images)
		if err != nil {
			return nil, err
		}
		rest = append(rest, file{name: r.name() + "_image.tar", data: image})
	}
	rest = append(rest, page)
	if r.tagged() {
		formula, err := r.makeFormula(sums)
		if err != nil {
			return nil, err
		}
		rest = append(rest, file{name: "replay.rb", data: formula})
	}
	return rest, nil
}

// packPlatform returns the archive of a platform and its bill of materials.
func (r *release) packPlatform(p platform, programs, shared []file) ([]file, error) {
	all := append(append([]file{}, programs...), shared...)
	pack, name := packTar, r.archiveName(p)
	if p.system == "windows" {
		pack = packZip
	}
	archive, err := pack(strings.TrimSuffix(strings.TrimSuffix(name, ".zip"), ".tar.gz"), all, r.time)
	if err != nil {
		return nil, err
	}
	if p == (platform{runtime.GOOS, runtime.GOARCH}) && p.system != "windows" {
		if err := r.checkLive(name, archive); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	bill, err := r.makeBill(p, programs)
	if err != nil {
		return nil, err
	}
	legal := shared[slices.IndexFunc(shared, func(f file) bool { return f.name == legalFile })]
	wheel, err := r.makeWheel(p, programs[0], legal.data)
	return []file{{name: name, data: archive}, {name: r.name() + "_" + p.system + "_" + p.processor + ".cdx.json", data: bill}, wheel}, err
}

// checksum is the checksum of a file of the release.
type checksum struct{ name, sum string }

// store writes a file and adds its checksum to sums.
func (r *release) store(out string, f file, sums []checksum) ([]checksum, error) {
	fmt.Printf("%s  %.1f MB\n", f.name, float64(len(f.data))/1e6)
	sums = append(sums, checksum{f.name, fmt.Sprintf("%x", sha256.Sum256(f.data))})
	return sums, os.WriteFile(filepath.Join(out, f.name), f.data, 0o644)
}

// formatSums returns checksums in the format of sha256sum --check.
func formatSums(sums []checksum) []byte {
	var b bytes.Buffer
	for _, s := range sums {
		fmt.Fprintf(&b, "%s  %s\n", s.sum, s.name)
	}
	return b.Bytes()
}

// checkAgain makes the release a second time in a different folder and compares the checksums.
func (r *release) checkAgain(out string) error {
	again, err := os.MkdirTemp("", "release-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(again)
	if err := r.makeAll(again); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(out, sumsFile))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(again, sumsFile))
	if err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("two releases of %s differ: first\n%sthen\n%s", r.commit, first, second)
	}
	fmt.Println("made twice: the same bytes")
	return nil
}
