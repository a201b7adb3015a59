package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// With --log-format json, every serving command logs its errors as lines of JSON.
func TestLogFormat(t *testing.T) {
	for _, line := range []string{
		"vllm --fleet=0", "sglang --fleet=0", "worker --system-port=-2", "frontend --http-port=-1", "stack up --cert=a.pem", "record", "kv-tail",
	} {
		var out, errs bytes.Buffer
		code := run(append(strings.Fields(line), "--log-format=json"), strings.NewReader(""), &out, &errs)
		var got struct{ Time, Level, Msg string }
		if err := json.Unmarshal(errs.Bytes(), &got); err != nil || code != cli.ExitUsage || got.Time == "" || got.Level != "ERROR" || got.Msg == "" {
			t.Errorf("%s: exit %d, %v: %s", line, code, err, &errs)
		}
	}
}

// Environment variables set flags of every serving command.
func TestVariablesOfServers(t *testing.T) {
	t.Setenv("REPLAY_FLEET", "0")
	for _, engine := range []string{"vllm", "sglang"} {
		var out, errs bytes.Buffer
		if code := run([]string{engine}, strings.NewReader(""), &out, &errs); code != cli.ExitUsage || errs.String() != "replay: REPLAY_FLEET=0: must be 1 to 1024\n" {
			t.Errorf("%s: exit %d: %s", engine, code, &errs)
		}
	}
}
