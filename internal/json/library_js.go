//go:build js

package json

import (
	"bytes"
	"encoding/json"
	"io"
)

// Decoder reads values from a stream.
type Decoder = json.Decoder

// Encoder writes values to a stream.
type Encoder = json.Encoder

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return json.NewDecoder(r) }

// NewEncoder returns an Encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder { return json.NewEncoder(w) }

// Marshal returns v as JSON.
func Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// MarshalUnescaped returns v as JSON without escapes for <, > and &.
func MarshalUnescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// MarshalIndent returns v as indented JSON.
func MarshalIndent(v any, prefix, indent string) ([]byte, error) {
	return json.MarshalIndent(v, prefix, indent)
}

// Unmarshal decodes text into v.
func Unmarshal(text []byte, v any) error { return json.Unmarshal(text, v) }

// Compact appends text to b without insignificant white space.
func Compact(b *bytes.Buffer, text []byte) error { return json.Compact(b, text) }

// Indent appends text to b with indentation.
func Indent(b *bytes.Buffer, text []byte, prefix, indent string) error {
	return json.Indent(b, text, prefix, indent)
}

// Valid reports whether text is one value.
func Valid(text []byte) bool { return json.Valid(text) }
