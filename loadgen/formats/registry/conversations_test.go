package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Data sets of conversations are read in all their common forms. Each answer becomes a request.
func TestConversations(t *testing.T) {
	share := `{"id":"a","conversations":[{"from":"human","value":"1 2 3"},{"from":"gpt","value":"4 5"},{"from":"human","value":"6"},{"from":"gpt","value":"7 8 9"}]}`
	for name, text := range map[string]string{
		"ShareGPT": "[" + share + "]", "ShareGPT, indented": "[\n  " + strings.ReplaceAll(share, `,{`, ",\n{") + "\n]\n", "lines": share + "\n",
		"LMSYS":    `{"conversation_id":"a","model":"m","conversation":[{"role":"human","content":"1 2 3"},{"role":"gpt","content":"4 5"},{"role":"human","content":"6"},{"role":"gpt","content":"7 8 9"}],"turn":2}`,
		"WildChat": `{"conversation_hash":"a","timestamp":"2023-04-09T00:02:53Z","conversation":[{"role":"human","content":"1 2 3","timestamp":null},{"role":"gpt","content":"4 5"},{"role":"human","content":"6"},{"role":"gpt","content":"7 8 9"}]}`,
		"messages": `{"id":"a","messages":[{"role":"human","content":[{"type":"text","text":"1 2 3"}]},{"role":"gpt","content":"4 5"},{"role":"human","content":"6"},{"role":"gpt","content":"7 8 9"}]}`,
	} {
		s, all := records(t, text, formats.Options{TraceBlock: 4, LeftOpen: formats.LeftOpen{Tokenizer: smallTokenizer}})
		if len(all) != 2 || s.Format != "conversations" || s.Approximate || !s.Untimed {
			t.Fatalf("%s: %d requests of %s", name, len(all), s.Format)
		}
		first, second := all[0], all[1]
		if first.Output != 3 || second.Output != 5 || string(first.Session) != "a" || string(second.Session) != "a" || first.Input >= second.Input || !slices.Equal(first.IDs, second.IDs[:len(first.IDs)]) {
			t.Errorf("%s: %d/%d in %v, then %d/%d in %v", name, first.Input, first.Output, first.IDs, second.Input, second.Output, second.IDs)
		}
	}
	_, all := records(t, `{"conversations":[{"content":"1 2 3"},{"content":"4 5"}]}`+"\n", formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 0.5, Rate: 1}})
	if len(all) != 1 || all[0].Output != 2 {
		t.Errorf("messages without a speaker: %+v", all)
	}
}

// The error for an unknown format suggests --columns with guessed column names.
func TestColumnsAreGuessed(t *testing.T) {
	for text, want := range map[string]string{
		"time,prompt_tokens,completion_tokens\n1,2,3":                                             " arrival=time,input=prompt_tokens,output=completion_tokens",
		"Request Time;Input Tokens;Output Tokens;User\n1;2;3;x":                                   " 'arrival=Request Time,input=Input Tokens,output=Output Tokens'",
		`{"created":1,"usage":{"prompt_tokens":5,"completion_tokens":7},"session":"x"}`:           " arrival=created,input=usage.prompt_tokens,output=usage.completion_tokens,session=session",
		`{"prompt_text":"x","n_in":1,"n_out":2,"first_token_time":4,"output_time":3,"ts":"2026"}`: " arrival=ts,input=n_in,output=n_out",
	} {
		_, err := NewStream(strings.NewReader(text), "f", formats.Options{})
		if err == nil || !strings.Contains(err.Error(), "; try --columns"+want+"; known formats: ") {
			t.Errorf("%s\n%v\nwant --columns%s", text, err, want)
		}
	}
}

// arrival_format reads dates in a format of strptime.
func TestArrivalFormat(t *testing.T) {
	const columns = "arrival=at,input=in,output=out,arrival_format="
	for format, at := range map[string]string{
		"%d/%m/%Y %H:%M:%S": "2/1/2026 10:00:01.5", "%m-%d-%y %I:%M:%S %p": "01-02-26 10:00:01.5 AM", "%d %b %Y %T": "02 Jan 2026 10:00:01.5",
		"%FT%H:%M:%S.%f%z": "2026-01-02T12:00:01.5+0200",
	} {
		_, all := records(t, "at,in,out\n"+at+",1,2\n", formats.Options{LeftOpen: formats.LeftOpen{Columns: columns + format}})
		if ns, exact := all[0].When.NS(); !exact || ns != 1767348001_500000000 {
			t.Errorf("%s of %s: %d ns", at, format, ns)
		}
	}
	for format, want := range map[string]string{"%d-%q": "must be a date as strptime takes it", "day": "must be a date as strptime takes it", "%d.%m.%Y": `at is "2/1/2026", must be a date and time as %d.%m.%Y`} {
		s, err := NewStream(strings.NewReader("at,in,out\n2/1/2026,1,2\n"), "f", formats.Options{LeftOpen: formats.LeftOpen{Columns: columns + format}})
		if err == nil {
			err = s.Next(new(formats.Record))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", format, err, want)
		}
	}
}

// Mooncake rows without hash ids become requests without shared prefixes.
func TestMooncakeWithoutIDs(t *testing.T) {
	s, all := records(t, `{"timestamp":40,"input_length":700,"output_length":20}`+"\n"+`{"timestamp":80.5,"input_length":5,"output_length":1}`+"\n", formats.Options{})
	if len(all) != 2 || s.Format != "mooncake-lengths" || !s.Private || all[1].Input != 5 || all[1].When.MS != 80.5 {
		t.Errorf("%s: %+v", s.Format, all)
	}
}
