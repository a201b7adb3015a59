package drive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// contactLimit is the timeout for the models and settings of a server.
const contactLimit = 5 * time.Second

// FindModel returns the first model of a server.
func FindModel(ctx context.Context, url string, headers http.Header) (string, error) {
	text, err := getText(ctx, url+"/v1/models", headers)
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models: lists no model, use --model", url)
	}
	return list.Data[0].ID, nil
}

// FindSettings returns the release and the settings that a vLLM server reports, by the names in meta.json. For other
// servers FindSettings returns nothing.
func FindSettings(ctx context.Context, url string, headers http.Header) map[string]any {
	found := map[string]any{}
	text, err := getText(ctx, url+"/metrics", headers)
	if err != nil || !strings.Contains(string(text), "vllm:") {
		return found
	}
	var told struct{ Version string }
	if text, err := getText(ctx, url+"/version", headers); err == nil && json.Unmarshal(text, &told) == nil && told.Version != "" {
		found["vllm_version"] = told.Version
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "vllm:cache_config_info{")
		if !ok {
			continue
		}
		for _, name := range []string{"num_gpu_blocks", "block_size", "enable_prefix_caching"} {
			_, value, _ := strings.Cut(labels, name+`="`)
			value, _, _ = strings.Cut(value, `"`)
			if n, err := strconv.Atoi(value); err == nil {
				found[name] = n
			} else if b, err := strconv.ParseBool(value); err == nil {
				found[name] = b
			}
		}
	}
	return found
}

func getText(ctx context.Context, url string, headers http.Header) ([]byte, error) {
	ctx, end := context.WithTimeoutCause(ctx, contactLimit, fmt.Errorf("%s: no answer after %v", url, contactLimit))
	defer end()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(rq.Header, headers)
	response, err := http.DefaultClient.Do(rq)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, 16<<20))
}
