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

// definition is what docs/report.md says of a key, or of a quantity.
type definition struct{ unit, text string }

// makeKeys makes the page of the keys of the report: those that the program writes, with
// the definitions of docs/report.md and the values of a run.
func (s *site) makeKeys() error {
	text, err := os.ReadFile(filepath.Join(s.root, "docs", "report.md"))
	if err != nil {
		return err
	}
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
	var keys []string
	for _, f := range new(collector.Report).Fields() {
		keys = append(keys, f.Key)
	}
	page, err := writeKeys(keys, string(text), values)
	if err != nil {
		return err
	}
	return s.write("reference/report-keys.md", []byte(fmt.Sprintf(keysHead, strings.Join(command, " "))+page))
}

// keysHead is what the page of the keys begins with.
const keysHead = `# Keys of the report

Every key that each report has, made from the program when this site was built. The examples are those of

    replay %s --report-json FILE

Further keys are written where there is something to say; [the report](../report.md#further-keys) has them, and what is behind the
definitions.

`

// writeKeys returns the table of keys. A key that docs/report.md does not define is an
// error, and so is one that the run has not.
func writeKeys(keys []string, report string, values map[string]json.RawMessage) (string, error) {
	defined := readDefinitions(report)
	var b strings.Builder
	b.WriteString("| Key | Unit | Definition | Example |\n| --- | --- | --- | ---: |\n")
	for _, key := range keys {
		d, ok := defined[key]
		if statistic, quantity, cut := strings.Cut(key, "_"); !ok && cut {
			var q definition
			if q, ok = defined[quantity]; ok {
				q.text, _, _ = strings.Cut(q.text, ";") // then how many samples there are
				d = definition{q.unit, q.text + ": " + defined[statistic].text}
			}
		}
		if !ok {
			return "", fmt.Errorf("%s: docs/report.md does not define it", key)
		}
		value, ok := values[key]
		if !ok {
			return "", fmt.Errorf("%s: the report of the run has no such key", key)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, d.unit, d.text, shortenNumber(value))
	}
	return b.String(), nil
}

// shortenNumber returns a number with three decimals at most.
func shortenNumber(value json.RawMessage) string {
	text := string(value)
	if whole, decimals, ok := strings.Cut(text, "."); ok && len(decimals) > 3 {
		if v, err := strconv.ParseFloat(text, 64); err == nil && whole != "0" {
			return strconv.FormatFloat(v, 'f', 3, 64)
		}
	}
	return text
}

// readDefinitions returns what the tables of docs/report.md define, by what is quoted in
// their first column.
func readDefinitions(report string) map[string]definition {
	all := make(map[string]definition)
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 {
			continue
		}
		name, ok := strings.CutPrefix(strings.TrimSpace(cells[1]), "`")
		name, closed := strings.CutSuffix(name, "`")
		if !ok || !closed {
			continue
		}
		d := definition{text: strings.TrimSpace(cells[len(cells)-2])}
		if len(cells) > 4 {
			d.unit = strings.TrimSpace(cells[2])
		}
		if _, seen := all[name]; !seen {
			all[name] = d
		}
	}
	return all
}
