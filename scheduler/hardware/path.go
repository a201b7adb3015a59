package hardware

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Keys of Fit.Live and Fit.Engine in a path.
const (
	LiveKey   = "live"
	EngineKey = "engine"
)

// AddKey returns the path of a fit with one more key.
func AddKey(path, key, value string) string {
	joint := "?"
	if strings.Contains(path, "?") {
		joint = "&"
	}
	return path + joint + key + "=" + url.QueryEscape(value)
}

// ParseFit parses GPU/MODEL?key=value&..., the text of a fit in arguments of worker processes and in settings of a
// run. The keys are the keys of Path; MODEL may be a path, and may end in /tpN. The defaults are one GPU and the
// defaults of vLLM.
func ParseFit(path string) (Fit, error) {
	f := Fit{TP: 1, PP: 1, DP: 1, Utilization: DefaultUtilization, BlockTokens: 16, MaxSeqs: 256, MaxBatch: 8192}
	name, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	gpu, model, ok := strings.Cut(name, "/")
	if !ok {
		return f, fmt.Errorf("%s: must be GPU/MODEL", path)
	}
	if i := strings.LastIndex(model, "/tp"); i >= 0 {
		if f.TP, err = parseSize(model[i+3:]); err != nil {
			return f, fmt.Errorf("%s: %s, expected tp and a number of GPUs", path, model[i+1:])
		}
		model = model[:i]
	}
	if err := f.readKeys(path, values); err != nil {
		return f, err
	}
	var own []GPU
	if file := values.Get("gpu-file"); file != "" {
		if own, err = ReadGPUs(file); err != nil {
			return f, err
		}
	}
	if f.GPU, err = FindGPU(gpu, own); err != nil {
		return f, err
	}
	f.Model, err = FindModel(model)
	return f, err
}

// parseSize parses a number of GPUs.
func parseSize(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1024 {
		return 0, fmt.Errorf("%s, must be 1 to 1024", text)
	}
	return n, nil
}

// readKeys sets the values of the keys in a path.
func (f *Fit) readKeys(path string, values url.Values) error {
	for key, all := range values {
		value, err := all[len(all)-1], error(nil)
		switch key {
		case "tp":
			f.TP, err = parseSize(value)
		case "pp":
			f.PP, err = parseSize(value)
		case "dp":
			f.DP, err = parseSize(value)
		case "ep":
			f.EP, err = parseSize(value)
		case LiveKey:
			if f.Live, err = strconv.Atoi(value); err != nil || f.Live < 1 {
				err = fmt.Errorf("%s, expected tokens", value)
			}
		case "weights":
			f.Weights, err = parseType(value)
		case "kv":
			f.KVBits, err = DtypeBits(value)
		case "graphs":
			if f.Graphs = value; !slices.Contains(graphModes(), value) {
				err = excerpt.Errorf("%q, must be one of %s", value, strings.Join(graphModes(), ", "))
			}
		case EngineKey:
			f.Engine = value
		case "op-tables":
			f.Operators = value
		case "gpu-file":
		default:
			err = fmt.Errorf("an unknown key")
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, key, err)
		}
	}
	return nil
}

// graphModes returns the names of the parts of a pass that may be captured as graphs: whole decode passes, the pieces
// between attention operators, or nothing.
func graphModes() []string { return []string{"full", "piecewise", "none"} }
