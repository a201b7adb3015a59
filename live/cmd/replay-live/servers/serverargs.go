package servers

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drive"
)

// serverArgs is the flag --server-args: settings of the server as a JSON object.
type serverArgs string

func (a *serverArgs) bind(fs *pflag.FlagSet) {
	fs.StringVar((*string)(a), "server-args", "{}", "settings of the server to write to meta.json, a JSON `object` with vLLM's names, such as {\"max_num_seqs\":256}")
}

// parse returns the settings by name.
func (a serverArgs) parse() (map[string]any, error) {
	var all map[string]any
	if json.Unmarshal([]byte(a), &all) != nil || all == nil {
		return nil, cli.Usagef("--server-args=%s: must be a JSON object", string(a))
	}
	return all, nil
}

// addFound adds the settings that the server reports, unless meta has them.
func addFound(ctx context.Context, meta map[string]any, url string, headers http.Header) {
	for key, value := range drive.FindSettings(ctx, url, headers) {
		if _, given := meta[key]; !given {
			meta[key] = value
		}
	}
}

// parseServer parses the URL of a server, without /v1. Errors quote hidden instead of the URL.
func parseServer(flag, text, hidden string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(text, "/"), "/v1"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("--%s=%s: must be http://host:port", flag, hidden)
	}
	return u, nil
}
