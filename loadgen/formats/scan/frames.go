//go:build !js

package scan

import (
	"io"
	"os"

	"github.com/replay-llm/replay/loadgen/formats/frames"
)

// kindOfFrames returns the name of the format of a file of data frames by its first bytes, "" for other files.
func kindOfFrames(head []byte) string { return frames.KindOf(head) }

// openFrames returns the rows of a file of data frames as lines. A file that is not regular, and standard input, is read by in.
func openFrames(kind string, file *os.File, in io.Reader) (io.Reader, error) {
	if file != nil {
		if stat, err := file.Stat(); err == nil && stat.Mode().IsRegular() {
			return frames.Open(kind, file, stat.Size())
		}
	}
	return frames.ReadAll(kind, in)
}
