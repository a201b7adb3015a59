package formats

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

// kind is a format: how to tell it and how to read it.
type kind struct {
	name string
	test func(*object) bool // whether a record is of the format; nil: never guessed
	open func(*Stream) (rows, error)
}

// listKinds are the formats in the order in which they are tried.
func listKinds() []kind {
	return []kind{
		{"dynamo", isDynamo, openDynamo},
		{"agentic_mooncake", isGraph, openGraph},
		{"satf", func(o *object) bool { return string(o.find("format")) == `"satf"` }, refuseFormat("is SATF, which holds no lengths that can be replayed")},
		{"otlp", isOTLP, openOTLP},
		{"weka", isWeka, openWeka},
		{"bailian", func(o *object) bool { return o.hasAll("chat_id", "parent_chat_id") }, openBailian},
		{Agentic, isAgents, openAgents},
		{"llmservingsim", func(o *object) bool { return o.has("input_toks", "sub_requests", "queued_ts") }, openServingSim},
		{"aiperf-export", isExport, openExport},
		{"genai-perf", isGenAI, openGenAI},
		{"aiperf-inputs", isInputs, openInputs},
		{"guidellm", isGuide, openGuide},
		{"inference-perf", func(o *object) bool { return o.hasAll("start_time", "end_time", "request", "info") }, openLifecycle},
		{"vllm-bench", func(o *object) bool { return isBench(o) && o.has("start_times") && !isRetokenized(o) }, openBench},
		{"sglang-bench", isBench, openBench},
		{"summary", isSummary, refuseFormat("summary only, no requests; want a file with one entry per request")},
		{"agentic_mooncake", isGraphV1, openGraph},
		{"mooncake-text", isMooncakeText, openText},
		{tasksFormat, isTask, openTasks},
		{Mooncake, isMooncake, openMooncake},
		{"mooncake-delta", nil, openDelta},
		{"aiperf-turns", func(o *object) bool { return o.has("turns", "text", "texts") }, openText},
		{vllmLogName, nil, openVLLMLog}, // told by lines that are no JSON
		{"vllm-custom", func(o *object) bool { v := o.find("prompt"); return v != nil && v[0] == '"' }, openText},
	}
}

// isReferences reports whether a format is one of those that the reference
// reads, and that are read as it reads them.
func isReferences(name string) bool { return name == Mooncake || name == Agentic }

// The formats that the reference reads.
const (
	Mooncake = "mooncake"                // a request per line
	Agentic  = "applied_compute_agentic" // an agent per line; it has no timestamps
)

// tasksFormat is Mooncake's rows with ids, some of which name those they wait for.
const tasksFormat = "tasks"

// findKind finds a format by its name.
func findKind(name string) (kind, bool) {
	kinds := listKinds()
	for _, t := range listTables() {
		kinds = append(kinds, kind{name: t.name, open: t.open})
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Names are the names of all formats that can be read.
func Names() []string {
	var names []string
	for _, k := range listKinds() {
		if k.name != "satf" && k.name != "summary" && !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	for _, t := range listTables() {
		names = append(names, t.name)
	}
	return append(names, "servegen")
}

func refuseFormat(why string) func(*Stream) (rows, error) {
	return func(s *Stream) (rows, error) {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: why}
	}
}

func isMooncake(o *object) bool {
	return o.has("output_length", "output_tokens", "input_length", "input_tokens", "hash_ids") && !o.has("prompt", "text", "texts", "turns")
}

func isMooncakeText(o *object) bool {
	return o.has("text_input", "messages", "payload") &&
		o.has("timestamp", "created_time", "delay", "delay_ms", "session_id", "hash_ids", "output_length", "output_tokens")
}

func isBench(o *object) bool { return o.hasAll("request_throughput", "input_lens", "output_lens") }

func isSummary(o *object) bool {
	return o.has("request_throughput") || o.hasAll("successes", "failures") && o.has("load_summary")
}

func isRetokenized(o *object) bool {
	return slices.ContainsFunc(o.members, func(m member) bool { return bytes.HasSuffix(m.key, []byte("_retokenized")) })
}

const (
	window     = 64 << 10 // bytes looked at
	maxSamples = 20       // records looked at
)

// sample is a record looked at.
type sample struct {
	line  int
	text  []byte
	whole bool // not cut off by the window
}

// detectKind finds out the format, or takes the one it was told.
func (s *Stream) detectKind() (kind, error) {
	if s.o.Columns != "" {
		s.skipBOM()
		return kind{name: columnsFormat, open: openColumns}, nil
	}
	told := s.o.Format != "" && s.o.Format != "auto"
	if told {
		k, err := s.findTold()
		if err != nil || isReferences(k.name) {
			return k, err
		}
		s.skipBOM()
		return k, nil
	}
	marked := s.skipBOM()
	samples, err := s.readSamples()
	if err != nil {
		return kind{}, err
	}
	if len(samples) == 0 {
		return kind{}, &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, want at least one"}
	}
	if bad := notText(samples[0].text); bad >= 0 && samples[0].whole {
		return kind{}, &loadgen.SyntaxError{Name: s.Name, Line: samples[0].line, Msg: fmt.Sprintf("byte %d of the line is not UTF-8 text, want UTF-8 without NUL", bad)}
	}
	switch bytes.TrimSpace(samples[0].text)[0] {
	case '{', '[':
		k, err := s.detectJSON(samples)
		if err == nil && marked && isReferences(k.name) {
			err = &loadgen.SyntaxError{Name: s.Name, Line: 1, Msg: "invalid JSON at column 1 (byte-order mark), want none in " + k.name}
		}
		return k, err
	}
	if isVLLMLog(samples) {
		return kind{name: vllmLogName, open: openVLLMLog}, nil
	}
	return s.detectTable(samples[0])
}

// findTold is the format named by the options.
func (s *Stream) findTold() (kind, error) {
	if k, ok := findKind(s.o.Format); ok {
		return k, nil
	}
	return kind{}, excerpt.Errorf("trace format is %q, want auto, %s", s.o.Format, strings.Join(Names(), ", "))
}

// skipBOM goes over a byte-order mark.
func (s *Stream) skipBOM() bool {
	if head, _ := s.lines.in.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = s.lines.in.Discard(3) // they are in the buffer
		s.lines.at = 3
		return true
	}
	return false
}

// readSamples are the first lines that are not blank, complete ones only but for
// the first.
func (s *Stream) readSamples() ([]sample, error) {
	head, err := s.lines.in.Peek(window)
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

// detectJSON finds the first format that a record is of.
func (s *Stream) detectJSON(samples []sample) (kind, error) {
	if _, _, err := matchKinds(samples[0].text); err != nil {
		switch {
		case s.isDocument(samples):
			text, err := s.firstValue()
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
			continue // the reader has a word on it
		case len(all) == 0 && firstLine == 0 && s.o.stops():
			return kind{}, unknownFormat(s.Name, p.line, keys)
		case len(all) == 0:
			continue
		case firstLine == 0:
			first, firstLine = all[0], p.line
			s.Also = namesOf(all[1:])
		case first.name == Mooncake && all[0].name == tasksFormat:
			first = all[0] // the rows before wait for nobody
		case s.o.stops() && !mayFollow(first.name, all[0].name):
			return kind{}, &loadgen.SyntaxError{Name: s.Name, Line: p.line, Msg: fmt.Sprintf("line %d is %s, line %d was %s; want one format", p.line, all[0].name, firstLine, first.name)}
		}
	}
	if firstLine == 0 {
		text := samples[0].text
		_, keys, err := matchKinds(text)
		if err != nil {
			return kind{}, rowAt(s.Name, samples[0].line-1+lineOf(text, len(bytes.TrimSpace(text))), err)
		}
		return kind{}, unknownFormat(s.Name, samples[0].line, keys)
	}
	return first, nil
}

// mayFollow reports whether a row that looks like one format may be in a file of
// another: rows need not have the keys that tell it.
func mayFollow(first, row string) bool {
	return row == first || first == "agentic_mooncake" || first == tasksFormat && row == Mooncake || first == "mooncake-text" && row == "mooncake"
}

// isDocument reports whether the file looks like one value over several lines, or like
// one line longer than the window, although its first line is no value.
func (s *Stream) isDocument(samples []sample) bool {
	head, err := s.lines.in.Peek(window)
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

// firstValue is the first line when it is a value, and all of the file when it
// is not. Either can be read again.
func (s *Stream) firstValue() ([]byte, error) {
	in := s.lines.in
	part, err := in.ReadSlice('\n')
	text := append([]byte(nil), part...)
	for err == bufio.ErrBufferFull && len(text) <= maxLine {
		part, err = in.ReadSlice('\n')
		text = append(text, part...)
	}
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, fmt.Errorf("%s:1: %w", s.Name, err)
	}
	if _, _, err := matchKinds(text); err != nil {
		rest, err := s.lines.readRest()
		if err != nil {
			return nil, err
		}
		text = append(text, rest...)
	}
	s.lines.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(text), in), readBuffer)
	return text, nil
}

// matchKinds lists the formats that text, one JSON value, is of.
func matchKinds(text []byte) (all []kind, keys []string, err error) {
	var o object
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return matchList(trimmed)
	}
	err = o.parseText(text)
	for _, k := range listKinds() {
		if k.test != nil && k.test(&o) {
			all = append(all, k)
		}
	}
	for _, m := range o.members {
		keys = append(keys, string(m.key))
	}
	return all, keys, err
}

// matchList is match for a list: of objects, or of the fields of a Mooncake
// record.
func matchList(text []byte) (all []kind, keys []string, err error) {
	if err := checkValue(text); err != nil {
		return nil, nil, err
	}
	parts, _ := splitList(text, nil)
	if len(parts) > 0 && parts[0][0] == '{' {
		all, keys, err = matchKinds(parts[0])
		all = slices.DeleteFunc(all, func(k kind) bool { return k.name != "inference-perf" })
		return all, keys, err
	}
	if len(parts) > 0 {
		k, _ := findKind(Mooncake)
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
	seen := listExcerpts(keys, most)
	return &loadgen.SyntaxError{Name: name, Line: line, Msg: fmt.Sprintf("no known format; keys seen: %s; accepted: %s; or --columns says where arrivals and lengths are",
		seen, strings.Join(Names(), ", "))}
}
