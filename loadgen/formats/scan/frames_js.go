//go:build js

package scan

import (
	"errors"
	"io"
	"os"
	"strings"
)

// kindOfFrames returns the name of the format of a file of data frames by its first bytes, "" for other files.
func kindOfFrames(head []byte) string {
	for _, kind := range [][2]string{{"PAR1", "Parquet"}, {"ARROW1", "Arrow"}} {
		if strings.HasPrefix(string(head), kind[0]) {
			return kind[1]
		}
	}
	return ""
}

// openFrames refuses a file of data frames: the page with the simulator has a bound on its size.
func openFrames(string, *os.File, io.Reader) (io.Reader, error) {
	return nil, errors.New("is not supported in the browser: replay traces convert makes JSON lines of it")
}
