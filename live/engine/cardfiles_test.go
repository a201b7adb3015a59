package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/json"
)

// Cards of releases 1.2.1 and 1.6.1 of the published package, and cards of this package.
func TestReadCards(t *testing.T) {
	both := []EndpointType{Chat, Completions}
	for text, want := range map[string]ModelCard{
		`{"display_name":"a","slug":"a","context_length":4096,"kv_cache_block_size":16,"model_type":"Chat | Completions","model_input":"Tokens","runtime_config":{"total_kv_blocks":null}}`: {
			Name: "a", ModelType: both, WorkerType: Aggregated, ContextLength: 4096, KVCacheBlockSize: 16},
		`{"display_name":"b","model_type":"Chat | Completions","worker_type":"aggregated","needs":[]}`: {Name: "b", ModelType: both, WorkerType: Aggregated},
		`{"display_name":"c","model_type":"Prefill"}`:                                                  {Name: "c", ModelType: []EndpointType{PrefillEndpoint}, WorkerType: Prefill},
		`{"display_name":"d","model_type":"Chat","worker_type":"decode","needs":[["prefill"]]}`:        {Name: "d", ModelType: []EndpointType{Chat}, WorkerType: Decode, Needs: []Mode{Prefill}},
		`{"name":"e","model_type":["chat","completions"],"worker_type":"decode","needs":["prefill"]}`:  {Name: "e", ModelType: both, WorkerType: Decode, Needs: []Mode{Prefill}},
	} {
		var got ModelCard
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got.Name != want.Name || !slices.Equal(got.ModelType, want.ModelType) || got.WorkerType != want.WorkerType || !slices.Equal(got.Needs, want.Needs) ||
			got.ContextLength != want.ContextLength || got.KVCacheBlockSize != want.KVCacheBlockSize {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, got, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"model_type":7}`), new(ModelCard)); err == nil {
		t.Error("model_type 7 was read")
	}
}

// A card with files is decoded to the same card, and contains the digests of the files.
func TestCardWithFiles(t *testing.T) {
	dir := t.TempDir()
	card := ModelCard{Name: "Org/Model 1", ModelType: []EndpointType{Chat, Completions}, WorkerType: Aggregated, ContextLength: 4096}
	if _, _, err := card.withFiles(dir); err == nil || !strings.Contains(err.Error(), "must be a directory with config.json and tokenizer.json") {
		t.Errorf("an empty directory: %v", err)
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, missing, err := card.withFiles(dir)
	if err != nil || !strings.Contains(missing, "has no template of chats") {
		t.Fatal(missing, err)
	}
	for _, want := range []string{
		`"model_type":"Chat | Completions"`, `"display_name":"Org/Model 1"`, `"slug":"org_model_1"`, `"worker_type":"aggregated"`, `"needs":[]`, `"media_decoder":null`,
		// BLAKE3 of no bytes, from its specification
		`"checksum":"blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262","size":0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: want %s", text, want)
		}
	}
	var back ModelCard
	if err := json.Unmarshal(text, &back); err != nil || back.Name != card.Name || !slices.Equal(back.ModelType, card.ModelType) || back.WorkerType != Aggregated {
		t.Errorf("read back as %+v, %v", back, err)
	}
}

// A chat template may be in any of three files. Without chat, no template is required.
func TestCardWithTemplate(t *testing.T) {
	const template = `{% for m in messages %}{{ m.content }}{% endfor %}`
	for _, test := range []struct {
		name, text, want string
		kinds            []EndpointType
		missing          bool
	}{
		{"tokenizer_config.json", `{"chat_template":"` + template + `"}`, `"prompt_formatter":{"hf_tokenizer_config_json":{"path":`, []EndpointType{Chat}, false},
		{"tokenizer_config.json", `{"chat_template":null}`, `"prompt_formatter":{"hf_tokenizer_config_json":{"path":`, []EndpointType{Chat, Completions}, true},
		{"tokenizer_config.json", `{}`, `"model_type":"Completions"`, []EndpointType{Completions}, false},
		{"chat_template.jinja", template, `"chat_template_file":{"hf_chat_template":{"is_custom":false,"file":{"path":`, []EndpointType{Chat}, false},
		{"chat_template.json", `{"chat_template":"` + template + `"}`, `"chat_template_file":{"hf_chat_template_json":{"is_custom":false,"file":{"path":`, []EndpointType{Chat}, false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"config.json": "{}", "tokenizer.json": "{}", test.name: test.text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		card := ModelCard{Name: "m", ModelType: test.kinds, WorkerType: Aggregated}
		text, missing, err := card.withFiles(dir)
		if err != nil || (missing != "") != test.missing || !strings.Contains(string(text), test.want) {
			t.Errorf("%s %s: missing %q, %v, %s, want %s", test.name, test.text, missing, err, text, test.want)
		}
	}
}

// The address for decode workers is also encoded and decoded in the package's format.
func TestCardWithMeeting(t *testing.T) {
	var got ModelCard
	text := `{"display_name":"m","model_type":"Prefill","worker_type":"prefill","needs":[["decode"]],"runtime_config":{"disaggregated_endpoint":{"bootstrap_host":"10.0.0.1","bootstrap_port":9999}}}`
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.RuntimeConfig.BootstrapHost != "10.0.0.1" || got.RuntimeConfig.BootstrapPort != 9999 {
		t.Errorf("%+v, %v", got.RuntimeConfig, err)
	}
	got.RuntimeConfig.Meeting = nil
	written, err := json.Marshal(got.asFull("/m"))
	if want := `"disaggregated_endpoint":{"bootstrap_host":"10.0.0.1","bootstrap_port":9999}`; err != nil || !strings.Contains(string(written), want) {
		t.Errorf("%s, %v, want %s", written, err, want)
	}
}
