package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// makeKeys makes the page of the report's keys. The page lists each key with its definition and its value in one run.
func (s *site) makeKeys() error {
	dir, err := os.MkdirTemp("", "site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := []string{"trace", "testdata/traces/chat-hour.jsonl", "--gpu", "h100", "--model", "llama-3.1-8b", "--workers", "8", "--router", "kv"}
	file := filepath.Join(dir, "report.json")
	arguments := append([]string{"run", "./cmd/replay"}, command...)
	if err := run(s.root, "go", append(arguments, "--report-json", file)...); err != nil {
		return err
	}
	written, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(written, &values); err != nil {
		return err
	}
	page, err := writeKeys(values)
	if err != nil {
		return err
	}
	return s.write("reference/report-keys.md", []byte(fmt.Sprintf(keysHead, strings.Join(command, " "))+page))
}

// keysHead is the beginning of the page of keys.
const keysHead = `# Keys of the report

Every key that each report has, made from the program when this site was built. The examples are those of

    replay %s --report-json FILE

"replay schema report" prints these keys and those of some reports only. [The report](../outputs.md#the-report) has the
terms of the definitions.

`

// writeKeys returns the table of keys. A key without a value in the run is an error.
func writeKeys(values map[string]json.RawMessage) (string, error) {
	var b strings.Builder
	b.WriteString("| Key | Unit | Definition | Example |\n| --- | --- | --- | ---: |\n")
	for _, f := range new(collector.Report).Fields() {
		value, ok := values[f.Key]
		if !ok {
			return "", fmt.Errorf("%s: the report of the run has no such key", f.Key)
		}
		m, statistic := collector.Named(f.Key)
		text := m.Text
		if statistic != nil {
			text, _, _ = strings.Cut(text, ";") // the omitted text is about the number of samples
			text += ": " + statistic.Text
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, m.Unit, text, shortenNumber(value))
	}
	return b.String(), nil
}

// shortenNumber returns a number with at most three decimals.
func shortenNumber(value json.RawMessage) string {
	text := string(value)
	if whole, decimals, ok := strings.Cut(text, "."); ok && len(decimals) > 3 {
		if v, err := strconv.ParseFloat(text, 64); err == nil && whole != "0" {
			return strconv.FormatFloat(v, 'f', 3, 64)
		}
	}
	return text
}
