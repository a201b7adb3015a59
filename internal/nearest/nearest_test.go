package nearest

import "testing"

func TestName(t *testing.T) {
	names := []string{"plan", "trace", "h100", "h200", "llama-3.1-70b", "llama-3.1-8b", "qwen3-14b"}
	for typed, want := range map[string]string{
		"H10": "h100", "lama-3.1-70b": "llama-3.1-70b", "llama3.1-8b": "llama-3.1-8b", "qwen3-41b": "qwen3-14b",
		"plna": "plan", "trcae": "trace", "tpu": "", "gpt-oss-20b": "", "": "",
	} {
		if got := Name(typed, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", typed, got, want)
		}
	}
}
