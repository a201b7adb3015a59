package plausible_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/plausible"
)

const weather = `{"type":"object","required":["city","unit"],"additionalProperties":false,"properties":{"city":{"type":"string","minLength":3,"maxLength":9},
	"unit":{"enum":["c","f"]},"days":{"type":"integer","minimum":1,"maximum":7},"at":{"$ref":"#/$defs/at"},"id":{"type":"string","pattern":"^[A-Z]{2}-\\d{3}$"}},
	"$defs":{"at":{"type":"array","items":{"type":"number","multipleOf":0.25,"exclusiveMaximum":5},"minItems":2,"maxItems":2}}}`

// The values for 500 seeds match the schema.
func TestValues(t *testing.T) {
	id := regexp.MustCompile(`^[A-Z]{2}-\d{3}$`)
	seen := map[string]bool{}
	for seed := range uint64(500) {
		b, err := plausible.Value([]byte(weather), seed)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			City, Unit *string
			Days       *int
			At         []float64
			ID         *string
		}
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		switch {
		case v.City == nil || len(*v.City) < 3 || len(*v.City) > 9, v.Unit == nil || *v.Unit != "c" && *v.Unit != "f", v.Days != nil && (*v.Days < 1 || *v.Days > 7),
			v.At != nil && (len(v.At) != 2 || v.At[0] >= 5 || v.At[0]*4 != float64(int(v.At[0]*4))), v.ID != nil && !id.MatchString(*v.ID):
			t.Fatalf("seed %d: %s", seed, b)
		}
		again, _ := plausible.Value([]byte(weather), seed)
		if string(again) != string(b) {
			t.Fatalf("seed %d: %s, then %s", seed, b, again)
		}
		seen[string(b)] = true
	}
	if len(seen) < 400 {
		t.Errorf("%d values of 500 differ", len(seen))
	}
	for _, bad := range []string{`{"$ref":"#/no"}`, `{"$ref":"#"}`, `{"type":"integer","minimum":5,"maximum":4}`, `false`, `{`, `{"type":"array","minItems":9999999,"items":{"minLength":9999999}}`} {
		if b, err := plausible.Value([]byte(bad), 1); err == nil {
			t.Errorf("%s gives %s, must be an error", bad, b)
		}
	}
	tree := `{"$defs":{"n":{"type":"object","required":["next"],"properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}}}},"$ref":"#/$defs/n"}`
	for seed := range uint64(50) {
		if b, err := plausible.Value([]byte(tree), seed); err != nil || !json.Valid(b) {
			t.Fatalf("%s: %v", b, err)
		}
	}
}

// engine answers with max_tokens words as a document or as a stream, with two tokens per event.
func engine(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Max    int `json:"max_tokens"`
		Stream bool
		Tools  any
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	if q.Tools != nil {
		http.Error(w, "tools reach the engine", 400)
		return
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(200)
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":{"completion_tokens":%d}}`, q.Max)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
	for i := 2; i < q.Max; i += 2 {
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":" a b"},"finish_reason":null}]}`+"\n\n")
	}
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":" z"},"finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n")
}

// ask returns the status and the body of the answer to a chat request.
func ask(body string) (int, string) {
	words := func(text string) []uint32 { return make([]uint32, len(text)/4+1) }
	fail := func(w http.ResponseWriter, _, message string) { http.Error(w, message, 400) }
	w := httptest.NewRecorder()
	plausible.Wrap(http.HandlerFunc(engine), words, fail).ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// message is the message of an answer, or the delta of an event.
type message struct {
	Content *string
	Calls   []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// Tool calls and JSON are equal in documents and in streams, for each tool_choice and response_format.
func TestTools(t *testing.T) {
	tools := `"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"weather","parameters":` + weather + `}}]`
	calls := 0
	for i := range 40 {
		_, auto := ask(fmt.Sprintf(`{"seed":%d,%s}`, i, tools))
		if strings.Contains(auto, `"tool_calls"`) {
			calls++
		}
	}
	if calls < 10 || calls > 30 {
		t.Errorf("%d of 40 requests with auto call a tool", calls)
	}
	for _, c := range []struct{ keys, reason, name string }{
		{tools + `,"tool_choice":"required"`, "tool_calls", "weather"},
		{tools + `,"tool_choice":{"type":"function","function":{"name":"weather"}}`, "tool_calls", "weather"},
		{`"response_format":{"type":"json_schema","json_schema":{"schema":` + weather + `}}`, "stop", ""},
		{`"response_format":{"type":"json_object"}`, "stop", ""},
		{`"structured_outputs":{"json":` + weather + `}`, "stop", ""},
	} {
		var whole struct {
			Choices []struct {
				Message message
				Reason  string `json:"finish_reason"`
			}
		}
		status, text := ask("{" + c.keys + "}")
		if err := json.Unmarshal([]byte(text), &whole); err != nil || status != 200 || whole.Choices[0].Reason != c.reason {
			t.Errorf("%s: %d %s", c.keys, status, text)
			continue
		}
		check := func(m message, name, arguments string) {
			if name != c.name || !json.Valid([]byte(arguments)) || !strings.HasPrefix(arguments, "{") {
				t.Errorf("%s: %s %s", c.keys, name, arguments)
			}
		}
		m := whole.Choices[0].Message
		if c.name != "" {
			check(m, m.Calls[0].Function.Name, m.Calls[0].Function.Arguments)
		} else {
			check(m, "", *m.Content)
		}
		_, stream := ask(`{"stream":true,` + c.keys + "}")
		var name, arguments string
		for line := range strings.SplitSeq(stream, "\n\n") {
			var event struct{ Choices []struct{ Delta message } }
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &event) != nil {
				continue
			}
			for _, d := range event.Choices {
				if d.Delta.Content != nil {
					arguments += *d.Delta.Content
				}
				for _, one := range d.Delta.Calls {
					name, arguments = name+one.Function.Name, arguments+one.Function.Arguments
				}
			}
		}
		check(message{}, name, arguments)
		if !strings.Contains(stream, `"finish_reason":"`+c.reason+`"`) || !strings.HasSuffix(stream, "data: [DONE]\n\n") {
			t.Error(stream)
		}
	}
	if _, cut := ask(`{"max_tokens":2,` + tools + `,"tool_choice":"required"}`); !strings.Contains(cut, `"finish_reason":"length"`) || !strings.Contains(cut, `"completion_tokens":2`) {
		t.Error(cut)
	}
	for _, bad := range []string{tools + `,"tool_choice":{"function":{"name":"x"}}`, `"tools":[]`, `"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"#/x"}}}`} {
		if status, text := ask("{" + bad + "}"); status != 400 {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}
