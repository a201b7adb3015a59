//go:build !js

package scan

import (
	"io"
	"os"

	"github.com/replay-llm/replay/loadgen/formats/frames"
)

// kindOfFrames returns the format of a data frame file by its first bytes. kindOfFrames returns "" for other files.
func kindOfFrames(head []byte) string { return frames.KindOf(head) }

// openFrames returns the rows of a data frame file as lines. Files without random access are read from in.
func openFrames(kind string, file *os.File, in io.Reader) (io.Reader, error) {
	if file != nil {
		if stat, err := file.Stat(); err == nil && stat.Mode().IsRegular() {
			return frames.Open(kind, file, stat.Size())
		}
	}
	return frames.ReadAll(kind, in)
}
