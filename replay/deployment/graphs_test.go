package deployment

import (
	"slices"
	"strings"
	"testing"
)

// TestReadGraphs checks the reading of captured graphs in the forms that the releases print.
func TestReadGraphs(t *testing.T) {
	for config, want := range map[string]struct {
		mode  string
		sizes []int
	}{
		`compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2, 4]}`: {"FULL_AND_PIECEWISE", []int{1, 2, 4}},
		`compilation_config={"level":3,"cudagraph_mode":1,"cudagraph_capture_sizes":[8,4,2,1]}`:                                                                              {"1", []int{8, 4, 2, 1}},
		`compilation_config={"cudagraph_mode":[2,1]}`:                                                   {"2,1", nil},
		`compilation_config={'cudagraph_mode': <CUDAGraphMode.NONE: 0>, 'cudagraph_capture_sizes': []}`: {"NONE", nil},
		`enforce_eager=False`: {"", nil},
	} {
		l, err := ReadLog(strings.NewReader("INFO Initializing a V1 LLM engine (v0.20.2) with config: model='m', " + config + "\n"))
		if err != nil || l.GraphMode != want.mode || !slices.Equal(l.GraphSizes, want.sizes) {
			t.Errorf("%s: %+v, %v, want %q and %v", config, l, err, want.mode, want.sizes)
		}
	}
}
