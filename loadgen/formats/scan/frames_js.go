//go:build js

package scan

import (
	"errors"
	"io"
	"os"
	"strings"
)

// kindOfFrames returns the format of a data frame file by its first bytes. kindOfFrames returns "" for other files.
func kindOfFrames(head []byte) string {
	for _, kind := range [][2]string{{"PAR1", "Parquet"}, {"ARROW1", "Arrow"}} {
		if strings.HasPrefix(string(head), kind[0]) {
			return kind[1]
		}
	}
	return ""
}

// openFrames returns an error, because the size of the simulator page is limited.
func openFrames(string, *os.File, io.Reader) (io.Reader, error) {
	return nil, errors.New("is not supported in the browser: replay traces convert makes JSON lines of it")
}
