package deployment

import (
	"regexp"
	"strconv"
	"strings"
)

// graphReader finds the graphs that a vLLM server captures in the configuration that its log has.
type graphReader struct{ mode, sizes *regexp.Regexp }

func newGraphReader() graphReader {
	return graphReader{
		mode:  regexp.MustCompile(`["']cudagraph_mode["']: ?(?:<CUDAGraphMode\.(\w+)|["']?(\w+)|\[([\d, ]+)\])`),
		sizes: regexp.MustCompile(`["']cudagraph_capture_sizes["']: ?\[([\d, ]+)\]`),
	}
}

// read adds the values in a line of the log to l.
func (g *graphReader) read(l *Log, line string) {
	if m := g.mode.FindStringSubmatch(line); m != nil {
		l.GraphMode = m[1] + m[2] + m[3] // at most one of the three is not empty
	}
	if m := g.sizes.FindStringSubmatch(line); m != nil {
		l.GraphSizes = nil
		for _, text := range strings.Split(m[1], ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
				l.GraphSizes = append(l.GraphSizes, n)
			}
		}
	}
}
