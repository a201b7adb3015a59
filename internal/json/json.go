// Package json reads and writes JSON with goccy/go-json. All programs use this package for JSON.
//
// The package declares the names of encoding/json. goccy/go-json and encoding/json accept the same documents, return
// the same values and write the same bytes (TestEqualsStandardLibrary, FuzzEqualsStandardLibrary). There are two
// differences.
//
// If a value has the wrong type, the error includes the path in the document: "json: cannot unmarshal string into Go
// struct field .a.1 of type int". Unmarshal returns this error even if a syntax error follows later in the document.
//
// If Unmarshal returns an error, the value may be partly filled. A caller must not read this value.
//
// In a browser the package uses encoding/json, because the size of the page with the simulator is limited.
//
// Rows of traces are read by the scanner of loadgen/formats. The scanner is faster than both libraries, and rejects
// some documents that the libraries accept.
package json

import "encoding/json"

// RawMessage is an encoded JSON value.
type RawMessage = json.RawMessage

// Number is a JSON number as text.
type Number = json.Number

// Delim is a JSON bracket or brace.
type Delim = json.Delim
