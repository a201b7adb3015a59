package engine

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/fault"
)

// The published package's cards have other names for the same content. The cards of the published package have two
// names of the model, for users and for paths. Types of requests are flags in a string, and modes are roles. The
// published cards also have the paths and digests of the model's files.

// flagged is an endpoint type and its flag in such cards.
type flagged struct {
	kind EndpointType
	text string
}

// listFlags returns all flags in the order in which they are written.
func listFlags() []flagged {
	return []flagged{{Chat, "Chat"}, {Completions, "Completions"}, {Embedding, "Embedding"}, {Tensor, "TensorBased"}, {PrefillEndpoint, "Prefill"}}
}

// aggregatedRole is the role of Aggregated workers in such cards.
const aggregatedRole = "aggregated"

// UnmarshalJSON decodes a card of either format. Unknown fields are ignored. A card without a role is of a prefill
// worker if its only type is prefill, otherwise of an aggregated worker.
func (c *ModelCard) UnmarshalJSON(text []byte) error {
	type plain ModelCard
	var read struct {
		plain
		DisplayName string          `json:"display_name"`
		ModelType   json.RawMessage `json:"model_type"`
		WorkerType  string          `json:"worker_type"`
		Needs       json.RawMessage `json:"needs"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*c = ModelCard(read.plain)
	c.Name = cmp.Or(c.Name, read.DisplayName)
	kinds, err := parseKinds(read.ModelType)
	if err != nil {
		return err
	}
	c.ModelType, c.Needs = kinds, parseNeeds(read.Needs)
	if m := c.RuntimeConfig.Meeting; m != nil && c.RuntimeConfig.BootstrapHost == "" {
		c.RuntimeConfig.BootstrapHost, c.RuntimeConfig.BootstrapPort = m.Host, m.Port
	}
	switch role := strings.ToLower(read.WorkerType); role {
	case "":
		c.WorkerType = Aggregated
		if len(kinds) == 1 && kinds[0] == PrefillEndpoint {
			c.WorkerType = Prefill
		}
	case aggregatedRole:
		c.WorkerType = Aggregated
	default:
		c.WorkerType = Mode(role)
	}
	return nil
}

// parseKinds parses endpoint types: a list, or a string of flags separated by |.
func parseKinds(text json.RawMessage) (kinds []EndpointType, err error) {
	if len(text) == 0 || string(text) == "null" || json.Unmarshal(text, &kinds) == nil {
		return kinds, nil
	}
	var joined string
	if json.Unmarshal(text, &joined) != nil {
		return nil, fmt.Errorf("model_type is %.60s, must be a list of kinds, or flags with | between them", text)
	}
	for word := range strings.SplitSeq(joined, "|") {
		word = strings.TrimSpace(word)
		i := slices.IndexFunc(listFlags(), func(f flagged) bool { return strings.EqualFold(f.text, word) })
		if i >= 0 {
			kinds = append(kinds, listFlags()[i].kind)
		} else if word != "" {
			kinds = append(kinds, EndpointType(strings.ToLower(word)))
		}
	}
	return kinds, nil
}

// parseNeeds parses the modes that a worker requires: a list, or a list of alternative lists, of which the first is
// used.
func parseNeeds(text json.RawMessage) (needs []Mode) {
	var sets [][]Mode
	if json.Unmarshal(text, &needs) == nil {
		return needs
	}
	if json.Unmarshal(text, &sets) == nil && len(sets) > 0 {
		return sets[0]
	}
	return nil
}

// file is a file of a model in a card.
type file struct {
	Path     string `json:"path"`
	Checksum string `json:"checksum"`
	Size     int64  `json:"size"`
}

// fullCard is a card in the package's format with the files of a model, for callers that tokenize texts.
type fullCard struct {
	ModelCard
	ModelType       string              `json:"model_type"`
	WorkerType      string              `json:"worker_type"`
	Needs           [][]Mode            `json:"needs"`
	DisplayName     string              `json:"display_name"`
	Slug            string              `json:"slug"`
	SourcePath      string              `json:"source_path"`
	ModelInfo       map[string]file     `json:"model_info"`
	Tokenizer       map[string]file     `json:"tokenizer"`
	PromptFormatter map[string]file     `json:"prompt_formatter,omitempty"`
	ChatTemplate    map[string]template `json:"chat_template_file,omitempty"`
	GenConfig       map[string]file     `json:"gen_config,omitempty"`
	ModelInput      string              `json:"model_input"`
	MigrationLimit  int                 `json:"migration_limit"`
	// The package rejects a card without these two keys.
	MediaDecoder *struct{} `json:"media_decoder"`
	MediaFetcher *struct{} `json:"media_fetcher"`
}

// template is a file with a chat template in a card.
type template struct {
	Custom bool `json:"is_custom"`
	File   file `json:"file"`
}

// withFiles returns the JSON of the card with the files of the model in directory path. missing is a warning if chat
// has no template, or "". Errors are fault.BackendInvalidArgument.
func (c *ModelCard) withFiles(path string) (text []byte, missing string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, "", fault.New(fault.BackendInvalidArgument, "model path: %w", err)
	}
	full := c.asFull(path)
	if err := full.addFiles(path); err != nil {
		return nil, "", fault.New(fault.BackendInvalidArgument, "model path %s: %w, must be a directory with config.json and tokenizer.json", path, err)
	}
	if slices.Contains(c.ModelType, Chat) && full.ChatTemplate == nil && !hasTemplate(full.PromptFormatter) {
		missing = "model path " + path + " has no template of chats, without which the published package's frontend does not list the model: " +
			"requires chat_template in tokenizer_config.json, or a chat_template.jinja, or no chat among the endpoint types"
	}
	text, err = json.Marshal(full)
	return text, missing, err
}

// asFull returns the card in the package's format, without files.
func (c *ModelCard) asFull(path string) *fullCard {
	full := &fullCard{
		ModelCard: *c, DisplayName: c.Name, Slug: makeSlug(c.Name), SourcePath: path, ModelInput: "Tokens",
		WorkerType: string(c.WorkerType), Needs: [][]Mode{},
	}
	if c.WorkerType == Aggregated {
		full.WorkerType = aggregatedRole
	}
	if r := &full.RuntimeConfig; r.BootstrapHost != "" {
		r.Meeting = &Meeting{r.BootstrapHost, r.BootstrapPort}
	}
	if len(c.Needs) > 0 {
		full.Needs = append(full.Needs, c.Needs)
	}
	var words []string
	for _, f := range listFlags() {
		if slices.Contains(c.ModelType, f.kind) {
			words = append(words, f.text)
		}
	}
	full.ModelType = strings.Join(words, " | ")
	return full
}

// addFiles adds the files of the model in directory path.
func (full *fullCard) addFiles(path string) error {
	for _, one := range []struct {
		to        *map[string]file
		key, name string
		required  bool
	}{
		{&full.ModelInfo, "hf_config_json", "config.json", true},
		{&full.Tokenizer, "hf_tokenizer_json", "tokenizer.json", true},
		{&full.PromptFormatter, "hf_tokenizer_config_json", "tokenizer_config.json", false},
		{&full.GenConfig, "hf_generation_config_json", "generation_config.json", false},
	} {
		f, err := describeFile(filepath.Join(path, one.name))
		if errors.Is(err, fs.ErrNotExist) && !one.required {
			continue
		}
		if err != nil {
			return err
		}
		*one.to = map[string]file{one.key: f}
	}
	for _, one := range []struct{ key, name string }{{"hf_chat_template", "chat_template.jinja"}, {"hf_chat_template_json", "chat_template.json"}} {
		f, err := describeFile(filepath.Join(path, one.name))
		if err == nil {
			full.ChatTemplate = map[string]template{one.key: {File: f}}
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hasTemplate reports whether the tokenizer's configuration has a chat template.
func hasTemplate(formatter map[string]file) bool {
	for _, f := range formatter {
		text, err := os.ReadFile(f.Path)
		var config struct {
			Template json.RawMessage `json:"chat_template"`
		}
		if err == nil && json.Unmarshal(text, &config) == nil && len(config.Template) > 0 && string(config.Template) != "null" {
			return true
		}
	}
	return false
}

// describeFile returns the path, size and digest of a file.
func describeFile(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	h := blake3.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return file{}, err
	}
	return file{path, "blake3:" + hex.EncodeToString(h.Sum(nil)), n}, nil
}

// makeSlug returns a name for paths: lower-case letters, digits, - and _.
func makeSlug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}
