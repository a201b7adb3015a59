package servers

import (
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
)

// serverArgs are settings of the server that a client knows, a JSON object.
type serverArgs string

func (a *serverArgs) bind(fs *pflag.FlagSet) {
	fs.StringVar((*string)(a), "server-args", "{}", "settings of the server for meta.json, a JSON `object` of vLLM's names, such as {\"max_num_seqs\":256}")
}

// parse returns the settings by their names.
func (a serverArgs) parse() (map[string]any, error) {
	var all map[string]any
	if json.Unmarshal([]byte(a), &all) != nil || all == nil {
		return nil, cli.Usagef("--server-args=%s: want a JSON object", string(a))
	}
	return all, nil
}
