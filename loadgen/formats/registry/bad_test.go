package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

const (
	moon    = `{"timestamp":0,"input_length":100,"output_length":2,"hash_ids":[1]}`
	chatRow = `{"chat_id":7,"parent_chat_id":-1,"timestamp":1,"input_length":40,"output_length":6,"hash_ids":[4,5,6]}`
	azure   = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,120,33\n"
	burst   = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	callEnd = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":5400,"request":{"request_id":"ID","request_received_ms":5000,"output_tokens":7,"replay":{"trace_block_size":16,"input_length":20,"input_sequence_hashes":[1,2]}}}`
	// vllmLine is a request of 3 tokens.
	vllmLine = "INFO 06-08 18:55:35 [logger.py:41] Received request a: params: SamplingParams(max_tokens=4), prompt_token_ids: [1, 2, 3]\n"
	v2       = `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64}`
)

// badRow is a file with an error, and the expected error message.
type badRow struct {
	name, text, want string
	// left is the number of requests read with --skip-bad. -1 means that reading fails even with --skip-bad.
	left int
	o    formats.Options
}

func badRows() []badRow {
	no := formats.Options{}
	format := func(name string) formats.Options { return formats.Options{Format: name} }
	return []badRow{
		{"nothing", "", "f: no requests in the file", -1, no},
		{"blank lines", "\n \n", "f: no requests in the file", -1, no},
		{"not UTF-8", moon + "\n{\"a\":\"\xff\"}\n" + moon, "f:2: not valid UTF-8", 2, no},
		{"NUL", moon + "\n\x00\n" + moon, `f:2: invalid JSON: '\x00' at byte 1, must be "{"`, 2, no},
		{"no text at all", "\x7fELF\x02\x01\x00\x00,\xf0\n", "f:1: byte 6 of the line is not UTF-8 text, must be UTF-8 without NUL", -1, no},
		{"unknown rows", `{"colour":"red","size":4}`, "f:1: no known format; keys seen: colour, size; --columns names the columns of arrivals and lengths; known formats: dynamo", -1, no},
		{"unknown columns", "a,b,c\n1,2,3", "f:1: no known format; keys seen: a, b, c", -1, no},
		{"two formats", moon + "\n" + moon + "\n" + `{"num_turns":1,"input_prompt_length":4}`, "f:3: line 3 is applied_compute_agentic, line 1 was mooncake, must be one format", 2, no},
		{"cut short", `{"timestamp":0,`, "f:1: JSON ends early at column 15", -1, no},
		{"cut short further down", moon + "\n" + `{"timestamp":0,`, "f:2: invalid JSON: the line ends at byte 16, must be a string", 1, no},
		{"two values on a line", moon + "\n" + moon + moon, "f:2: invalid JSON: '{' at byte 68, must be the end of the line", 1, no},
		{"byte-order mark", "\ufeff" + moon, "f:1: invalid JSON at column 1 (byte-order mark)", -1, no},
		{"bad escape", moon + "\n" + `{"session_id":"\x","output_length":1,"hash_ids":[]}`, `f:2: invalid JSON: 'x' at byte 17, must be an escape`, 1, no},
		{"leading zero", moon + "\n" + `{"output_length":01,"hash_ids":[]}`, "f:2: invalid JSON: '1' at byte 19, must be no digit after a leading 0", 1, no},

		{"key twice", moon + "\n" + `{"input_length":1,"input_tokens":1,"output_length":1,"hash_ids":[1]}`, "f:2: input_tokens is given twice", 1, no},
		{"decimal length", moon + "\n" + `{"input_length":12.0,"output_length":1,"hash_ids":[1]}`, "f:2: input_length is 12.0, must be a whole number >= 0", 1, no},
		{"length in quotes", moon + "\n" + `{"input_length":"12","output_length":1,"hash_ids":[1]}`, `f:2: input_length is "12", must be a whole number >= 0`, 1, no},
		{"negative length", moon + "\n" + `{"input_length":1,"output_length":-1,"hash_ids":[1]}`, "f:2: output_length is -1, must be a whole number >= 0", 1, no},
		{"no ids", moon + "\n" + `{"input_length":1,"output_length":1}`, "f:2: hash_ids is missing", 1, no},
		{"session goes back", moon + "\n" + `{"session_id":"s7","timestamp":9,"output_length":1,"hash_ids":[1]}` + "\n" + `{"session_id":"s7","timestamp":4,"output_length":1,"hash_ids":[1]}`, "f:3: session s7: delay is -5, must be >= 0", 2, formats.Options{}},
		{"infinite time", moon + "\n" + `{"timestamp":1e999,"output_length":1,"hash_ids":[1]}`, "f:2: timestamp is 1e999, must be a number that fits a float64", 1, no},
		{"id too large", moon + "\n" + `{"output_length":1,"hash_ids":[1,2,3,18446744073709551616]}`, "f:2: hash_ids is […, 18446744073709551616, …] at place 4, must be whole numbers >= 0", 1, no},
		{"negative id", moon + "\n" + `{"output_length":1,"hash_ids":[-1]}`, "f:2: hash_ids is […, -1, …] at place 1, must be whole numbers >= 0", 1, no},

		{"prompt without end", vllmLine + vllmLine + "INFO 06-08 18:55:36 [logger.py:41] Received request b: prompt: 'x, params: SamplingParams(max_tokens=4)", "f:3: prompt: the text has no end, must be a quote", 2, no},
		{"token that is none", vllmLine + "INFO 06-08 18:55:36 [logger.py:41] Received request b: params: SamplingParams(max_tokens=4), prompt_token_ids: [1, x]", `f:2: prompt_token_ids[1] is " x", must be a whole number`, 1, no},
		{"prompt in no line", vllmLine + "INFO 06-08 18:55:36 [logger.py:65] Received request b: params: SamplingParams(max_tokens=4)", "f:2: no line tells the prompt of 1 requests: must be a log of VLLM_LOGGING_LEVEL=DEBUG", -1, no},
		{"log without requests", "INFO 06-08 18:55:36 [api_server.py:9] Starting\n", "f: no line has \"Received request\", expected the log", -1, no},
		{"span of negative length", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"-1"}}]}]}]}]}`, "f:1: resourceSpans[0].scopeSpans[0].spans[0].gen_ai.usage.input_tokens is -1, must be an integer >= 0", -1, no},
		{"span without begin", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"1"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"1"}}]}]}]}]}`, "f:1: resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano is missing, must be ns since 1970", -1, no},
		{"spans without requests", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"GET"}]}]}]}`, "f: no span has its numbers of tokens", -1, no},
		{"input 0", azure + "2023-11-16 18:15:47.5,0,33", "f:3: input is 0, must be > 0", 1, no},
		{"output 0", azure + "2023-11-16 18:15:47.5,4,0", "f:3: the output is 0 tokens, must be at least 1 (--zero-output drop or one)", 1, formats.Options{LeftOpen: formats.LeftOpen{ZeroOutput: "error"}}},
		{"no such day", azure + "2023-11-31 18:15:47.5,4,1", `f:3: TIMESTAMP is "2023-11-31 18:15:47.5", must be a valid date and time`, 1, no},
		{"hour 24", azure + "2023-11-16 24:15:47.5,4,1", `f:3: TIMESTAMP is "2023-11-16 24:15:47.5", must be a valid date and time`, 1, no},
		{"zone on some rows", azure + "2023-11-16 18:15:47.5Z,4,1", `f:3: TIMESTAMP is "2023-11-16 18:15:47.5Z", which has a zone`, 1, no},
		{"too few fields", azure + "2023-11-16 18:15:47.5,4", "f:3: 2 fields, must be 3", 1, no},
		{"missing column", "TIMESTAMP,ContextTokens\n2023-11-16 18:15:47.5,4", "f:1: header lacks GeneratedTokens", -1, no},
		{"quote not closed", azure + "\"2023-11-16 18:15:47.5,4,1\n", "f:3: quote opened on line 3 is not closed", 1, no},
		{"exponent", azure + "2023-11-16 18:15:47.5,1e3,1", `f:3: ContextTokens is "1e3", must be an integer`, 1, no},
		{"thousands", azure + "2023-11-16 18:15:47.5,1,024,1", "f:3: 4 fields, must be 3", 1, no},
		{"elapsed time", burst + "5,a,-2,G,3,4,7,Conversation log", "f:2: Elapsed time is -2, must be >= 0", -1, no},
		{"NaN time", burst + "NaN,a,2,G,3,4,7,Conversation log", `f:2: Timestamp is "NaN", must be a finite number`, -1, no},
		{"kind of log", burst + "5,a,2,G,3,4,7,Chat", `f:2: Log Type is "Chat", must be Conversation log or API log`, -1, no},
		{"batch", "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n0,2,0,0.0,4,64,9", "f:2: batch_size is 4, must be 1", -1, no},
		{"vidur id", "arrived_at,num_prefill_tokens,num_decode_tokens,block_hash_ids\n0,600,1,3|x", `f:2: block_hash_ids[1] is "x", must be 0 to`, -1, no},

		{"bailian blocks", chatRow, "f: trace block size is 512, must be 16 for bailian", -1, formats.Options{TraceBlock: 512}},
		{"chat twice", chatRow + "\n" + chatRow, "f:2: chat_id 7 was on line 1", 1, no},
		{"own parent", chatRow + "\n" + strings.Replace(strings.Replace(chatRow, ":-1", ":8", 1), ":7", ":8", 1), "f:2: parent_chat_id 8 is the row's own chat_id", 1, no},
		{"too few ids", chatRow + "\n" + strings.Replace(strings.Replace(chatRow, ":40", ":90", 1), ":7", ":8", 1), "f:2: number of hash ids is 3 for 90 prompt tokens, must be 5 or 6 with blocks of 16 tokens; no block size fits all rows", 1, no},
		{"no such wait", `{"request_id":"a","wait_for":["q9"],"input_length":9,"output_length":1,"hash_ids":[1]}`, "f:1: wait_for names q9, which is not in the file", -1, no},
		{"cycle", `{"request_id":"a","wait_for":["b"],"input_length":9,"output_length":1,"hash_ids":[1]}` + "\n" + `{"request_id":"b","wait_for":["a"],"input_length":9,"output_length":1,"hash_ids":[1]}`, "f:1: requests a, b wait for each other", -1, no},
		{"version 3", strings.Replace(v2, ":2", ":3", 1), "f:1: version is 3, must be 2", -1, no},
		{"request twice", v2 + strings.Repeat("\n"+`{"request_id":"a","play_id":"p","session_id":"m","input_length":64,"output_length":9,"hash_ids":[1],"not_before_ms":0}`, 2), "f:3: request_id a was on line 2", 1, no},
		{"join", v2 + `
{"request_id":"a","session_id":"m","input_length":64,"output_length":9,"hash_ids":[1],"not_before_ms":0}
{"request_id":"b","session_id":"n","input_length":64,"output_length":9,"hash_ids":[1],"not_before_ms":0,"dependencies":[{"request_id":"a","trigger":"dispatch","relation":"spawn"}]}`, "f: 1 edges are not a chain, use --dag=chain", -1, no},
		{"hashes", strings.Replace(callEnd, "[1,2]", "[1,2,3]", 1), "f:1: 3 hashes for 20 tokens of 16, must be 2", -1, no},
		{"block sizes", callEnd + "\n" + strings.NewReplacer("ID", "J", ":16", ":64", "[1,2]", "[1]").Replace(callEnd), "f:2: request.replay.trace_block_size is 64, was 16 before", 1, no},
		{"context on some", callEnd + "\n" + strings.NewReplacer(`"ID"`, `"J","agent_context":{"session_id":"s"}`).Replace(callEnd), "f: agent_context on 1 of 2 requests, expected all or none", -1, no},
		{"not received", strings.Replace(callEnd, `"request_received_ms":5000,`, "", 1), "f:1: request.request_received_ms is missing", -1, no},
		{"weka block", `{"id":"a","block_size":0,"requests":[]}`, "f:1: block_size is 0, must be > 0", -1, no},
		{"weka type", `{"id":"a","block_size":64,"requests":[{"t":0,"type":"x"}]}`, `f:1: requests[0].type is "x", must be n, s or subagent`, -1, no},
		{"weka agents", `{"id":"a","block_size":64,"requests":[{"t":0,"type":"n","in":64,"out":1,"hash_ids":[1]},{"t":1,"type":"subagent","requests":[{"t":2,"type":"n","in":64,"out":1,"hash_ids":[1]}]}]}`, "f: 1 edges are not a chain, use --dag=chain", -1, no},
		{"token ids", `{"input_toks":10,"output_toks":5,"arrival_time_ns":1,"input_tok_ids":[1,2,3,4,5,6,7,8,9]}`, "f:1: input_toks is 10, input_tok_ids has 9", -1, no},
		{"arrays", `{"request_throughput":1,"input_lens":[1,2],"output_lens":[1],"start_times":[0,1]}`, "f:1: input_lens has 2, output_lens has 1", -1, no},
		{"summary", `{"request_throughput":1,"mean_ttft_ms":4}`, "f: summary only, no requests", -1, no},
		{"text", `{"prompt":"three rivers"}`, "f:1: output_length is missing, must be it or --output-len", -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"no tokenizer", `{"prompt":"three rivers"}`, "f:1: prompt has text, no token count; use --tokenizer or --tokens-per-byte", -1, formats.Options{LeftOpen: formats.LeftOpen{OutputTokens: 3}}},
		{"no such branch", `{"request_id":"a","branches":["q9"],"input_length":9,"output_length":1,"hash_ids":[1]}`, "f:1: branches names q9, which is not in the file", -1, no},
		{"relation", v2 + "\n" + `{"request_id":"a","play_id":"p","session_id":"m","input_length":64,"output_length":9,"hash_ids":[1],"not_before_ms":0,"dependencies":[{"request_id":"a","trigger":"completion","relation":"odd"}]}`, `f:2: dependencies[0].relation is "odd", must be sequence, spawn, join or replay_barrier`, -1, no},
		{"images", "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-10-16 18:15:46.5,x,120,33", `f:2: NumImages is "x", must be an integer`, -1, no},
		{"sum of tokens", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,G,x,4,7,API log", `f:2: Request tokens is "x", must be an integer`, -1, no},
		{"lengths only", "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n-4,1,5,4", `f:2: num_prefill_tokens is "-4", must be an integer`, -1, formats.Options{LeftOpen: formats.LeftOpen{Rate: 1}}},
		{"no text in a row", `{"timestamp":0,"text_input":7,"output_length":3}`, "f:1: no text of a prompt, expected text_input, messages, payload, text, texts or prompt", -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"two times", `{"turns":[{"text":"a","timestamp":1,"delay":2,"output_length":3}]}`, "f:1: turns[0].timestamp and delay are both given, expected one", -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"payload without tokens", `{"data":[{"session_id":"s","payloads":[{"prompt":"a"}]}]}`, "f:1: data[0].payloads[0].max_completion_tokens is missing, must be it or --output-len", -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"which run", `{"experiments":[{"requests":[]},{"requests":[]}]}`, "f:1: 2 runs in the file, use --run=1 to 2", -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"guide", `{"metadata":{"guidellm_version":"1"},"benchmarks":[{"requests":{"successful":[{"input_metrics":{"text_tokens":"x"}}]}}]}`, `f:1: benchmarks[0].requests.successful[0].input_metrics.text_tokens is "x", must be an integer`, -1, no},
		{"lifecycle", `[{"start_time":"now","end_time":2,"request":"{}","info":{}}]`, `f:1: start_time is "now", must be a number`, -1, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1}}},
		{"new tokens", `{"session_id":"s","timestamp":0,"input_length":3,"output_length":1}`, "f:1: hash_ids is missing", -1, format("mooncake-delta")},
		{"tool waits", `{"session_id":"t1","arrival_time_ns":1,"sub_requests":[{"input_toks":90,"output_toks":4,"tool_duration_ns":-7}]}`, "f:1: sub_requests[0].tool_duration_ns is -7, must be", -1, no},
		{"agent's lists", `{"num_turns":2,"input_prompt_length":10,"assistant_response_length":[1],"tool_call_output_length":[1,1],"tool_call_latency":[1,1],"final_assistant_response_length":1}`, "f:1: assistant_response_length has 1 numbers, expected num_turns = 2", -1, no},
		{"told otherwise", moon, "f:1: chat_id is missing", -1, format("bailian")},
		{"no such format", moon, `trace format is "csv", must be auto, dynamo`, -1, format("csv")},
		{"export", `{"metadata":{"request_start_ns":5},"metrics":{"input_sequence_length":{"value":"9"}}}`, `f:1: metrics.input_sequence_length.value is "9", must be an integer`, -1, no},
	}
}

// Every error contains the file, the line, the value and the requirement. With --skip-bad only the bad row is
// missing.
func TestBadRows(t *testing.T) {
	rows := badRows()
	if len(rows) < 30 {
		t.Fatalf("%d kinds of bad rows, want at least 30", len(rows))
	}
	for _, c := range rows {
		o := c.o
		o.SkipBad = 0
		_, err := collected(c.text, o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
			continue
		}
		t.Logf("%s: %v", c.name, err)
		var told []error
		o.SkipBad, o.Bad = -1, func(err error) { told = append(told, err) }
		if strings.HasPrefix(c.text, moon+"\n") {
			o.SkipBad, o.KeepGoing = 0, true
		}
		left, err := collected(c.text, o)
		switch {
		case c.left < 0 && err == nil:
			t.Errorf("%s: with bad rows skipped it is read, %d requests", c.name, left)
		case c.left >= 0 && (err != nil || left != c.left || len(told) != 1):
			t.Errorf("%s: with bad rows skipped %d requests are left, %d rows skipped, %v; want %d and 1", c.name, left, len(told), err, c.left)
		}
	}
}

// collected returns the number of requests in a text, read row by row.
func collected(text string, o formats.Options) (int, error) {
	s, err := NewStream(strings.NewReader(text), "f", o)
	if err != nil {
		return 0, err
	}
	w, err := formats.Collect(s)
	if err != nil {
		return 0, err
	}
	return len(w.Turns), nil
}

// A line that is longer than the read window is read, even if the window ends within a character.
func TestLongFirstLine(t *testing.T) {
	for k := range 3 {
		row := `{"prompt":"` + strings.Repeat("x", k) + strings.Repeat("日", 64<<10) + `"}`
		if n, err := collected(row, formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 1, OutputTokens: 3}}); err != nil || n != 1 {
			t.Errorf("%d requests, %v; want 1", n, err)
		}
	}
}

// More bad rows than --skip-bad permits are an error.
func TestSkipBadHasABound(t *testing.T) {
	text := chatRow + "\n{}\n{}\n" + strings.Replace(chatRow, ":7", ":8", 1) + "\n{}\n"
	n, err := collected(text, formats.Options{LeftOpen: formats.LeftOpen{SkipBad: 3}})
	if err != nil || n != 2 {
		t.Errorf("%d requests, %v; want 2", n, err)
	}
	_, err = collected(text, formats.Options{LeftOpen: formats.LeftOpen{SkipBad: 2}})
	if want := "f:5: timestamp is missing, must be a time (2 bad rows skipped before, must be at most 2)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// --skip-bad is rejected for Mooncake files.
func TestMooncakeSkipsNothing(t *testing.T) {
	for _, n := range []int{1, -1} {
		_, err := collected(moon, formats.Options{LeftOpen: formats.LeftOpen{SkipBad: n}})
		if err == nil || !strings.Contains(err.Error(), "f: is mooncake, of which no row is skipped") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// Files that are not text, truncated files and directories are rejected.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"lfs", "version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"},
		{"parquet", "PAR1....", "not a Parquet file"},
		{"zip", "PK\x03\x04....", "is a zip archive"},
		{"utf16", "\xff\xfe{\x00", "is UTF-16"},
		{"html", "<html>", "looks like HTML"},
		{"short.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xaa", "short.gz:1: the gzip data is cut short"},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readPath(path, formats.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		} else {
			t.Log(strings.ReplaceAll(err.Error(), dir+"/", ""))
		}
	}
	for _, c := range []struct{ trace, data, want string }{
		{"600,1,1,Pareto,1,1", `{}`, `chunk-7-trace.csv:1: law is "Pareto", must be Gamma or Weibull`},
		{"600,1,1", `{}`, "chunk-7-trace.csv:1: 3 fields, must be 6"},
		{"600,1,1,Gamma,1,1", `{"0":{"input_tokens":"{4: 0.8}"}}`, "chunk-7-dataset.json:1: input_tokens probabilities sum to 0.8, must be 1"},
		{"600,1,1,Gamma,1,1", `{"0":{"input_tokens":"{4: f()}"}}`, `chunk-7-dataset.json:1: input_tokens column 2 is "4: f()", must be number: number`},
		{"600,1,1,Gamma,1,1", "", "chunk-7-trace.csv has no chunk-7-dataset.json"},
	} {
		pair := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(pair, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("chunk-7-trace.csv", c.trace)
		if c.data != "" {
			write("chunk-7-dataset.json", c.data)
		}
		_, err := readPath(pair, formats.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		} else {
			t.Log(strings.ReplaceAll(err.Error(), pair+"/", ""))
		}
	}
}
