package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// embedded and document have fields of every type that the programs encode.
type embedded struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
}

type document struct {
	embedded
	Timestamp float64                    `json:"timestamp"`
	Input     int                        `json:"input_length"`
	Output    *int                       `json:"output_length,omitempty"`
	IDs       []uint64                   `json:"hash_ids"`
	Raw       json.RawMessage            `json:"raw,omitempty"`
	Number    json.Number                `json:"num"`
	Shares    map[string]float64         `json:"m"`
	Inner     *embedded                  `json:"in"`
	List      []embedded                 `json:"list"`
	Any       any                        `json:"any"`
	Flag      *bool                      `json:"bool"`
	Text      string                     `json:"str"`
	Small     float32                    `json:"f32"`
	Byte      uint8                      `json:"u8"`
	Zero      time.Duration              `json:"z,omitzero"`
	Pair      [2]float64                 `json:"arr"`
	Bytes     []byte                     `json:"bytes"`
	Time      *time.Time                 `json:"time"`
	Raws      map[string]json.RawMessage `json:"mm"`
	Quoted    int                        `json:"q,string"`
	Untagged  string
}

// listTargets returns constructors of values of every type that documents are decoded into.
func listTargets() []func() any {
	return []func() any{
		func() any { return new(any) },
		func() any { return new(document) },
		func() any {
			return &document{IDs: []uint64{9, 8, 7}, Shares: map[string]float64{"k": 1}, Inner: &embedded{Seed: 3}}
		},
		func() any { return new([]document) },
		func() any { return new(map[string]any) },
		func() any { return new(map[string]json.RawMessage) },
		func() any { return new(map[string]string) },
		func() any { return new([]json.RawMessage) },
		func() any { return new([]float64) },
		func() any { return new(json.RawMessage) },
		func() any { return new(json.Number) },
		func() any { return new(string) },
		func() any { return new(int) },
		func() any { return new(bool) },
		func() any { return new(float32) },
	}
}

// decoder is the common interface of the decoders of both libraries.
type decoder interface {
	Decode(v any) error
	UseNumber()
	DisallowUnknownFields()
	Token() (stdjson.Token, error)
	More() bool
	InputOffset() int64
}

// compareReading decodes a text with both libraries.
func compareReading(t *testing.T, text []byte) {
	for _, make := range listTargets() {
		want, got := make(), make()
		wantErr, err := stdjson.Unmarshal(text, want), json.Unmarshal(text, got)
		if (wantErr == nil) != (err == nil) || err == nil && !reflect.DeepEqual(want, got) {
			t.Errorf("Unmarshal %q into %T: %+v, %v; want %+v, %v", text, got, got, err, want, wantErr)
		}
		if err == nil {
			compareWriting(t, got)
			compareWriting(t, reflect.ValueOf(got).Elem().Interface())
		}
		for strict := range 2 {
			want, got = make(), make()
			a, b := decoder(stdjson.NewDecoder(bytes.NewReader(text))), decoder(json.NewDecoder(bytes.NewReader(text)))
			if strict == 1 {
				a.UseNumber()
				b.UseNumber()
				a.DisallowUnknownFields()
				b.DisallowUnknownFields()
			}
			for range 3 {
				wantErr, err := a.Decode(want), b.Decode(got)
				if (wantErr == nil) != (err == nil) || errors.Is(err, io.EOF) != errors.Is(wantErr, io.EOF) ||
					err == nil && (!reflect.DeepEqual(want, got) || a.InputOffset() != b.InputOffset() || a.More() != b.More()) {
					t.Errorf("Decode %q into %T: %+v, %v; want %+v, %v", text, got, got, err, want, wantErr)
				}
				if err != nil {
					break
				}
			}
		}
	}
}

// compareTokens reads the tokens of a text with both libraries.
func compareTokens(t *testing.T, text []byte) {
	a, b := decoder(stdjson.NewDecoder(bytes.NewReader(text))), decoder(json.NewDecoder(bytes.NewReader(text)))
	for {
		if a.More() != b.More() {
			t.Errorf("%q: more tokens: %v at %d", text, b.More(), b.InputOffset())
		}
		want, wantErr := a.Token()
		got, err := b.Token()
		if !reflect.DeepEqual(want, got) || (wantErr == nil) != (err == nil) || err == nil && a.InputOffset() != b.InputOffset() {
			t.Errorf("%q: token %v at %d, %v; want %v at %d, %v", text, got, b.InputOffset(), err, want, a.InputOffset(), wantErr)
		}
		if err != nil || wantErr != nil {
			return
		}
	}
}

// compareForms reformats a text with both libraries.
func compareForms(t *testing.T, text []byte) {
	var want, got bytes.Buffer
	wantErr, err := stdjson.Compact(&want, text), json.Compact(&got, text)
	if (wantErr == nil) != (err == nil) || want.String() != got.String() {
		t.Errorf("Compact %q: %q, %v; want %q, %v", text, &got, err, &want, wantErr)
	}
	want.Reset()
	got.Reset()
	wantErr, err = stdjson.Indent(&want, text, " ", "\t"), json.Indent(&got, text, " ", "\t")
	if (wantErr == nil) != (err == nil) || want.String() != got.String() {
		t.Errorf("Indent %q: %q, %v; want %q, %v", text, &got, err, &want, wantErr)
	}
	if json.Valid(text) != stdjson.Valid(text) {
		t.Errorf("%q is valid: %v", text, json.Valid(text))
	}
}

// compareWriting writes a value with both libraries.
func compareWriting(t *testing.T, v any) {
	want, wantErr := stdjson.Marshal(v)
	got, err := json.Marshal(v)
	if !bytes.Equal(want, got) || (wantErr == nil) != (err == nil) {
		t.Errorf("Marshal %#v: %s, %v; want %s, %v", v, got, err, want, wantErr)
	}
	want, _ = stdjson.MarshalIndent(v, "", "  ")
	if got, _ = json.MarshalIndent(v, "", "  "); !bytes.Equal(want, got) {
		t.Errorf("MarshalIndent %#v: %s; want %s", v, got, want)
	}
	for indent := range 2 {
		var a, b bytes.Buffer
		e, f := stdjson.NewEncoder(&a), json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		f.SetEscapeHTML(false)
		e.SetIndent("", strings.Repeat(" ", indent))
		f.SetIndent("", strings.Repeat(" ", indent))
		if wantErr, err := e.Encode(v), f.Encode(v); a.String() != b.String() || (wantErr == nil) != (err == nil) {
			t.Errorf("Encode %#v: %s, %v; want %s, %v", v, &b, err, &a, wantErr)
		}
		if plain, err := json.MarshalUnescaped(v); indent == 0 && err == nil && string(plain)+"\n" != a.String() {
			t.Errorf("MarshalUnescaped %#v: %s; want %s", v, plain, &a)
		}
	}
}

// listTexts returns the JSON documents of the repository, and edge cases of the format.
func listTexts(t testing.TB) [][]byte {
	texts := [][]byte{
		[]byte(`-0`), []byte(`-0.0`), []byte(`1e21`), []byte(`1e20`), []byte(`1e-7`), []byte(`5e-324`), []byte(`1e400`), []byte(`00`), []byte(`1.`), []byte(`+1`),
		[]byte(`9007199254740993`), []byte(`18446744073709551615`), []byte(`18446744073709551616`), []byte(`[0.1,3.4e38,3.5e38,1e-46]`), []byte(`NaN`),
		[]byte(`"\ud800"`), []byte(`"\ud83d\ude00"`), []byte(`"\udc00x"`), []byte("\"\xff\""), []byte("\"\xed\xa0\x80\""), []byte("\"a\nb\""), []byte("\"\u2028<>&\""),
		[]byte(`{"Timestamp":1,"TIMESTAMP":2,"timestamp":3}`), []byte(`{"timestamp":1,"timestamp":"x"}`), []byte(`{"raw": [ 1 , 2 ] ,"num":1e5,"u8":256}`),
		[]byte("{\"\u017ftr\":\"long s\",\"\u212a\":1}"), []byte(`{"z":0,"bytes":"aGk=","time":"2020-01-01T00:00:00Z","q":"5","arr":[1,2,3]}`), []byte(`{"m":{"b":1,"a":2,"":3}}`),
		[]byte(`null`), []byte(``), []byte(` `), []byte(`{}x`), []byte(`[1,]`), []byte(`{"a"}`), []byte("\ufeff{}"), []byte("{\x00}"), []byte(`nultrue`), []byte(`{"name":null,"in":null,"list":[null]}`),
	}
	for _, pattern := range []string{"../../testdata/traces/*.json*", "../../testdata/traces/formats/*", "../../testdata/reference/*.json", "../../cmd/replay/testdata/files/*.json*", "../../live/*/testdata/*.json*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil || len(text) > 1<<20 {
				continue // a folder or a compressed file
			}
			if len(text) < 20_000 {
				texts = append(texts, text)
			}
			for i, line := range bytes.Split(text, []byte("\n")) {
				if i < 5 && len(line) < 5000 {
					texts = append(texts, line, line[:len(line)/2])
				}
			}
		}
	}
	if len(texts) < 300 {
		t.Fatalf("%d texts, want those of testdata too", len(texts))
	}
	return texts
}

// compare checks that the package and the standard library give the same results for a text.
func compare(t *testing.T, text []byte) {
	compareReading(t, text)
	compareTokens(t, text)
	compareForms(t, text)
}

func TestEqualsStandardLibrary(t *testing.T) {
	for _, text := range listTexts(t) {
		compare(t, text)
	}
}

func FuzzEqualsStandardLibrary(f *testing.F) {
	for _, text := range listTexts(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 20_000 {
			compare(t, text)
		}
	})
}

// The two differences that the package comment describes.
func TestErrorsNameTheirPlace(t *testing.T) {
	var row struct {
		Input int   `json:"input"`
		A     []int `json:"a"`
	}
	err := json.Unmarshal([]byte(`{"input":5,"a":[1,"x"]}`), &row)
	if err == nil || !strings.Contains(err.Error(), "a.1 of type int") || row.Input != 5 {
		t.Errorf("%v, %+v; want the place, and what was read before it", err, row)
	}
}

// The maximum nesting depth equals the depth of the standard library, so that no input overflows the stack.
func TestDeepNesting(t *testing.T) {
	for _, open := range []string{"[", `{"in":`, `{"x":`, `{"any":[`, `[{"mm":{"k":`} {
		for _, n := range []int{9_000, 100_000, 1_000_000} {
			text := []byte(strings.Repeat(open, n))
			for _, make := range listTargets() {
				if err := json.Unmarshal(text, make()); err == nil {
					t.Errorf("%d times %s into %T: %v", n, open, make(), err)
				}
				if err := json.NewDecoder(bytes.NewReader(text)).Decode(make()); err == nil {
					t.Errorf("%d times %s into %T: no error", n, open, make())
				}
			}
		}
	}
}
