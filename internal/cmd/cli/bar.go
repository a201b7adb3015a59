//go:build !js

package cli

import (
	"io"

	"github.com/schollz/progressbar/v3"
)

// rateColumns is the least width of a terminal with room for the rate. A line that wraps is not cleared.
const rateColumns = 70

// roomyColumns is the least width with room for a description.
const roomyColumns = 100

// newBar returns a Progress that draws on w.
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
	bar := progressbar.NewOptions64(1, options...) // the total is known in Show
	bar.StartWithoutRender()
	return &Progress{bar: bar, total: 1, roomy: columns >= roomyColumns}
}
