//go:build !js

package cli

import (
	"io"

	"github.com/schollz/progressbar/v3"
)

// rateColumns is the minimum width of a terminal, in columns, for a bar with the rate. A bar that wraps at the end of
// the line cannot be cleared.
const rateColumns = 70

// roomyColumns is the minimum width of a terminal, in columns, for a bar with a description.
const roomyColumns = 100

// newBar returns a Progress that draws a bar on w.
func newBar(w io.Writer, what string, columns int) *Progress {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionFullWidth(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionSetItsString(what),
	}
	if columns >= rateColumns {
		options = append(options, progressbar.OptionShowIts())
	} else {
		options = append(options, progressbar.OptionSetDescription(what))
	}
	bar := progressbar.NewOptions64(1, options...) // Show sets the total
	bar.StartWithoutRender()
	return &Progress{bar: bar, total: 1, roomy: columns >= roomyColumns}
}
