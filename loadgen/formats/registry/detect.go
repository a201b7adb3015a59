// Package registry lists the trace formats, detects the format of a file by its first rows, and opens traces.
//
// Read detect.go (the list), then open.go.
package registry

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/entries"
	"github.com/replay-llm/replay/loadgen/formats/mooncake"
	"github.com/replay-llm/replay/loadgen/formats/results"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/sessions"
	"github.com/replay-llm/replay/loadgen/formats/tables"
	"github.com/replay-llm/replay/loadgen/formats/texts"
)

// kind is a format with functions to detect and to read it.
type kind struct {
	name string
	test func(*scan.Object) bool // reports whether a record matches the format; nil if the format is not detected by records
	open func(*formats.Stream) (formats.Reader, error)
}

// listKinds returns the formats in the order of detection.
func listKinds() []kind {
	return []kind{
		{"dynamo", sessions.IsDynamo, sessions.OpenDynamo},
		{"agentic_mooncake", func(o *scan.Object) bool { return string(o.Find("schema")) == `"dynamo.agentic_mooncake"` }, sessions.OpenGraph},
		{"satf", func(o *scan.Object) bool { return string(o.Find("format")) == `"satf"` }, refuseFormat("is SATF, which holds no lengths that can be replayed")},
		{"otlp", entries.HasSpans, results.OpenOTLP},
		{"weka", sessions.IsWeka, sessions.OpenWeka},
		{"bailian", func(o *scan.Object) bool { return o.HasAll("chat_id", "parent_chat_id") }, sessions.OpenBailian},
		{formats.Agentic, sessions.IsAgents, sessions.OpenAgents},
		{"llmservingsim", func(o *scan.Object) bool { return o.Has("input_toks", "sub_requests", "queued_ts") }, sessions.OpenServingSim},
		{"aiperf-export", func(o *scan.Object) bool { return o.Has("metrics") && o.OpenInner("metadata").Has("request_start_ns") }, results.OpenExport},
		{"genai-perf", func(o *scan.Object) bool { return o.OpenFirst("experiments").Has("requests") }, results.OpenGenAI},
		{"aiperf-inputs", func(o *scan.Object) bool { return o.OpenFirst("data").HasAll("session_id", "payloads") }, results.OpenInputs},
		{"guidellm", results.IsGuide, results.OpenGuide},
		{"inference-perf", func(o *scan.Object) bool { return o.HasAll("start_time", "end_time", "request", "info") }, results.OpenLifecycle},
		{"vllm-bench", func(o *scan.Object) bool { return isBench(o) && o.Has("start_times") && !isRetokenized(o) }, results.OpenBench},
		{"sglang-bench", isBench, results.OpenBench},
		{"summary", isSummary, refuseFormat("summary only, no requests; must be a file with one entry per request")},
		{"agentic_mooncake", func(o *scan.Object) bool {
			return o.Has("request_id") && o.Has("wait_for", "branches", "prefix_reset", "tool_wait_ms", "tool_events")
		}, sessions.OpenGraph},
		{"mooncake-text", isMooncakeText, texts.Open},
		{formats.Tasks, func(o *scan.Object) bool { return o.HasAll("id", "after") && mooncake.Is(o) }, sessions.OpenTasks},
		{tables.Lengths, tables.IsLengths, tables.OpenLengths},
		{formats.Mooncake, func(o *scan.Object) bool { return mooncake.Is(o) && !tables.IsLengths(o) }, mooncake.Open},
		{"mooncake-delta", nil, mooncake.OpenDelta},
		{"aiperf-turns", func(o *scan.Object) bool { return o.Has("turns", "text", "texts") }, texts.Open},
		{texts.VLLMLog, nil, texts.OpenVLLMLog}, // detected by lines that are not JSON
		{"openai-batch", func(o *scan.Object) bool { return o.HasAll("custom_id", "body") }, texts.Open},
		{texts.Conversations, texts.IsConversation, texts.OpenConversations},
		{"vllm-custom", func(o *scan.Object) bool { v := o.Find("prompt"); return v != nil && v[0] == '"' }, texts.Open},
	}
}

// isReferences reports whether the reference can read the format. A format that the reference can read must be read
// like in the reference.
func isReferences(name string) bool { return name == formats.Mooncake || name == formats.Agentic }

// findKind returns the format with a name.
func findKind(name string) (kind, bool) {
	kinds := listKinds()
	for _, t := range tables.List() {
		kinds = append(kinds, kind{name: t.Name, open: t.Open})
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Names returns the names of all formats that can be read.
func Names() []string {
	var names []string
	for _, k := range listKinds() {
		if k.name != "satf" && k.name != "summary" && !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	for _, t := range tables.List() {
		names = append(names, t.Name)
	}
	return append(names, "servegen")
}

func refuseFormat(why string) func(*formats.Stream) (formats.Reader, error) {
	return func(s *formats.Stream) (formats.Reader, error) {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: why}
	}
}

func isMooncakeText(o *scan.Object) bool {
	return o.Has("text_input", "messages", "payload") &&
		o.Has("timestamp", "created_time", "delay", "delay_ms", "session_id", "hash_ids", "output_length", "output_tokens")
}

func isBench(o *scan.Object) bool { return o.HasAll("request_throughput", "input_lens", "output_lens") }

func isSummary(o *scan.Object) bool {
	return o.Has("request_throughput") || o.HasAll("successes", "failures") && o.Has("load_summary")
}

func isRetokenized(o *scan.Object) bool {
	return slices.ContainsFunc(o.Members, func(m scan.Member) bool { return bytes.HasSuffix(m.Key, []byte("_retokenized")) })
}

const maxSamples = 20 // maximum number of samples

// sample is a line that is used to detect the format.
type sample struct {
	line  int
	text  []byte
	whole bool // the line is completely in the read window
}

// detectKind returns the format of the options, or detects it.
func detectKind(s *formats.Stream) (kind, error) {
	if s.Options.Columns != "" {
		s.Lines.SkipBOM()
		return kind{name: tables.Columns, open: tables.OpenColumns}, nil
	}
	told := s.Options.Format != "" && s.Options.Format != "auto"
	if told {
		k, err := findTold(s)
		if err != nil || isReferences(k.name) {
			return k, err
		}
		s.Lines.SkipBOM()
		return k, nil
	}
	marked := s.Lines.SkipBOM()
	samples, err := readSamples(s)
	if err != nil {
		return kind{}, err
	}
	if len(samples) == 0 {
		return kind{}, &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, must have at least one"}
	}
	if bad := scan.NotText(samples[0].text); bad >= 0 && samples[0].whole {
		return kind{}, &loadgen.SyntaxError{Name: s.Name, Line: samples[0].line, Msg: fmt.Sprintf("byte %d of the line is not UTF-8 text, must be UTF-8 without NUL", bad)}
	}
	switch bytes.TrimSpace(samples[0].text)[0] {
	case '{', '[':
		k, err := detectJSON(s, samples)
		if err == nil && marked && isReferences(k.name) {
			err = &loadgen.SyntaxError{Name: s.Name, Line: 1, Msg: "invalid JSON at column 1 (byte-order mark), must be none in " + k.name}
		}
		return k, err
	}
	if slices.ContainsFunc(samples, func(x sample) bool { return texts.IsVLLMLog(x.text) }) {
		return kind{name: texts.VLLMLog, open: texts.OpenVLLMLog}, nil
	}
	t, names, err := tables.Detect(s, samples[0].text)
	switch {
	case err != nil:
		return kind{}, err
	case t.Name == "":
		return kind{}, unknownFormat(s.Name, samples[0].line, names)
	}
	return kind{name: t.Name, open: t.Open}, nil
}

// findTold returns the format that is named in the options.
func findTold(s *formats.Stream) (kind, error) {
	if k, ok := findKind(s.Options.Format); ok {
		return k, nil
	}
	return kind{}, excerpt.Errorf("trace format is %q, must be auto, %s", s.Options.Format, strings.Join(Names(), ", "))
}

// readSamples returns the first lines that are not blank. All lines except for the first are complete.
func readSamples(s *formats.Stream) ([]sample, error) {
	head, err := s.Lines.Peek()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s:1: %w", s.Name, err)
	}
	var all []sample
	line := 0
	for len(head) > 0 && len(all) < maxSamples {
		text, rest, ended := bytes.Cut(head, []byte{'\n'})
		line++
		if len(bytes.TrimSpace(text)) > 0 && (ended || err == io.EOF || len(all) == 0) {
			all = append(all, sample{line, text, ended || err == io.EOF})
		}
		head = rest
	}
	return all, nil
}

// detectJSON returns the first format that a sample matches.
func detectJSON(s *formats.Stream, samples []sample) (kind, error) {
	if _, _, err := matchKinds(samples[0].text); err != nil {
		switch {
		case isDocument(s, samples):
			text, err := s.Lines.FirstValue(isValue)
			if err != nil {
				return kind{}, err
			}
			samples = []sample{{line: 1, text: text}}
		case len(samples) == 1:
			return kind{}, &loadgen.SyntaxError{Name: s.Name, Line: samples[0].line, Msg: err.Error()}
		}
	}
	var first kind
	firstLine := 0
	for _, p := range samples {
		all, keys, err := matchKinds(p.text)
		switch {
		case err != nil:
			continue // the reader returns an error for this line
		case len(all) == 0 && firstLine == 0 && s.Options.StopsAtBad():
			return kind{}, unknownFormat(s.Name, p.line, keys)
		case len(all) == 0:
			continue
		case firstLine == 0:
			first, firstLine = all[0], p.line
			s.Also = namesOf(all[1:])
		case first.name == formats.Mooncake && all[0].name == formats.Tasks:
			first = all[0] // the rows before have no dependencies
		case s.Options.StopsAtBad() && !mayFollow(first.name, all[0].name):
			return kind{}, &loadgen.SyntaxError{Name: s.Name, Line: p.line, Msg: fmt.Sprintf("line %d is %s, line %d was %s, must be one format", p.line, all[0].name, firstLine, first.name)}
		}
	}
	if firstLine == 0 {
		text := samples[0].text
		_, keys, err := matchKinds(text)
		if err != nil {
			return kind{}, scan.RowError(s.Name, samples[0].line-1+scan.LineOf(text, len(bytes.TrimSpace(text))), err)
		}
		return kind{}, unknownFormat(s.Name, samples[0].line, keys)
	}
	return first, nil
}

// mayFollow reports whether a row that matches one format can be in a file of another format. Distinguishing keys are
// optional in some rows.
func mayFollow(first, row string) bool {
	return row == first || first == "agentic_mooncake" || first == formats.Tasks && row == formats.Mooncake || first == "mooncake-text" && row == "mooncake" ||
		first == formats.Mooncake && row == tables.Lengths // the reader returns an error for this row
}

// isDocument reports whether the file seems to be a single JSON value. A single JSON value has several lines, or a
// line that is longer than the window.
func isDocument(s *formats.Stream, samples []sample) bool {
	head, err := s.Lines.Peek()
	if err == io.EOF {
		_, _, err := matchKinds(head)
		return err == nil
	}
	if len(samples) == 1 {
		return true
	}
	_, _, second := matchKinds(samples[1].text)
	return second != nil || len(bytes.TrimSpace(samples[0].text)) == 1
}

// matchKinds returns all formats that a JSON value matches.
func matchKinds(text []byte) (all []kind, keys []string, err error) {
	var o scan.Object
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return matchList(trimmed)
	}
	err = o.ParseText(text)
	for _, k := range listKinds() {
		if k.test != nil && k.test(&o) {
			all = append(all, k)
		}
	}
	return all, tables.MemberNames(&o), err
}

// matchList is matchKinds for a list of objects, or for a list of the fields of a Mooncake record.
func matchList(text []byte) (all []kind, keys []string, err error) {
	if err := scan.CheckValue(text); err != nil {
		return nil, nil, err
	}
	parts, _ := scan.SplitList(text, nil)
	if len(parts) > 0 && parts[0][0] == '{' {
		all, keys, err = matchKinds(parts[0])
		all = slices.DeleteFunc(all, func(k kind) bool { return k.name != "inference-perf" && k.name != texts.Conversations })
		return all, keys, err
	}
	if len(parts) > 0 {
		k, _ := findKind(formats.Mooncake)
		all = append(all, k)
	}
	return all, []string{"a list"}, nil
}

func namesOf(all []kind) []string {
	var names []string
	for _, k := range all {
		names = append(names, k.name)
	}
	return names
}

func unknownFormat(name string, line int, keys []string) error {
	const most = 12
	if len(keys) == 1 && strings.ContainsAny(keys[0], ";\t") {
		keys = strings.FieldsFunc(keys[0], func(r rune) bool { return r == ';' || r == '\t' })
	}
	columns := "--columns names the columns of arrivals and lengths"
	guess := tables.GuessColumns(keys)
	if guess != "" {
		columns = "try --columns " + quoteWord(guess)
	}
	row := &loadgen.SyntaxError{Name: name, Line: line, Msg: fmt.Sprintf("no known format; keys seen: %s; %s; known formats: %s",
		excerpt.List(keys, most), columns, strings.Join(Names(), ", "))}
	if len(keys) < 2 {
		return row
	}
	return &formats.UnknownError{Row: row, Keys: keys, Columns: guess}
}

// quoteWord quotes a word for the shell, if needed.
func quoteWord(text string) string {
	if strings.ContainsAny(text, " \"'$`\\&;|()<>*?!#~") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// isValue reports whether text is a JSON value.
func isValue(text []byte) bool {
	_, _, err := matchKinds(text)
	return err == nil
}
