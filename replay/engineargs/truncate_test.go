package engineargs

import (
	"errors"
	"strings"
	"testing"
)

// TestTruncateRefused checks that SGLang's truncation of prompts, which is not simulated, is rejected.
func TestTruncateRefused(t *testing.T) {
	for value, refused := range map[string]bool{"true": true, "false": false, "1": true} {
		_, err := Parse([]byte(`{"engine_type":"sglang","sglang":{"allow_auto_truncate":`+value+`}}`), Options{})
		var key *KeyError
		if refused != (err != nil) || refused && (!errors.As(err, &key) || !strings.Contains(err.Error(), "allow_auto_truncate")) {
			t.Errorf("allow_auto_truncate %s: %v, refused is to be %v", value, err, refused)
		}
	}
}
