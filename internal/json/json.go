// Package json is the one door to goccy/go-json, with which the programs read and write JSON.
//
// Declarations are those of encoding/json. Both libraries accept the same documents, give the same values and write
// the same bytes (TestEqualsStandardLibrary, FuzzEqualsStandardLibrary), except:
//
//   - The error of a value of another type names its place in the document: "json: cannot unmarshal string into Go
//     struct field .a.1 of type int". It comes before that of a syntax error behind it.
//   - Where Unmarshal fails, the value may be filled up to the place of the error. A caller must not read it.
//
// In a browser the package is encoding/json: the page with the simulator has a bound on its size.
//
// Rows of traces are read by the scanner of loadgen/formats, which is faster than both libraries and refuses what they
// accept.
package json

import "encoding/json"

// RawMessage is a value in the bytes of its document.
type RawMessage = json.RawMessage

// Number is a number in the digits of its document.
type Number = json.Number

// Delim is a bracket or a brace.
type Delim = json.Delim
