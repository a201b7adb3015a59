// Package schema declares settings, each once, by a call next to the field that it sets. From the declarations follow the flags
// of the command line, the reading of JSON objects and its errors, the names in the logs of servers, the lines of deployment
// files, and the list of `replay settings`.
//
// Read schema.go, then read.go, object.go and flag.go.
package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/stable"
)

// Kind is what a flag takes.
type Kind string

const (
	Int    Kind = "int"
	Real   Kind = "number"
	Limit  Kind = "limit" // an integer, or unlimited
	Factor Kind = "ratio" // a number, or unlimited
	Bool   Kind = "bool"
	Path   Kind = "path"
	Name   Kind = "name"
	Range  Kind = "range"  // a number, or two with .. between
	Object Kind = "object" // JSON
)

// Row is a setting.
type Row struct {
	Key     string   // in its object; in lists with the names of the objects around it, joined with dots
	Value   any      // of the field where the key is absent; nil: what the field holds
	Default string   // the same in words; "": Value
	Help    string   // of the flag, unit or wanted thing in backquotes; "": there is no flag
	Flag    string   // "": Key, with dashes
	Sets    string   // the key that the flag sets; "": Key
	Kind    Kind     // of the flag; "": that of what is read
	Names   []string // the only values, of kind Name
	Offered []string // values that a shell completes, of other kinds
	Only    string   // the only engine that reads it; "": all
	Alike   bool     // it is the same in all pools, so that no flag sets it in one
	After   string   // the flag before it in the help; "": that of the row before
	Log     string   // names in the logs of servers: "vllm:block_size sglang:page_size", ! in front of the opposite; the last wins
	Own     bool     // the reference does not have it
	File    File
	Knob    Knob
	Doc     Doc
}

// File is the line of a deployment file.
type File struct {
	Place   int // among the lines; 0: there is none
	Default string
	Help    string
}

// Knob is what the explorer shows of a setting.
type Knob struct {
	Label, Preset string // "": it has none
	Choices       string // the only values, with blanks between; "": Names, or any
	Steps         string // where a slider stops, with blanks between
}

// Doc is what the list of settings has otherwise than the help.
type Doc struct {
	Unit, Default string // "-": none
	Text          string
	Part          string // of the page; "": that of the engine
}

// Value is one value, as JSON text.
type Value struct {
	Key   string // "sglang.page_size" is a member of the object sglang
	Value string
}

// KeyError reports a value that cannot be used.
type KeyError struct {
	Key   string // "sglang.page_size" for members of the object sglang
	Value string // as written, or after defaults
	Rule  string // that it breaks: "must be at least 1", "requires block_size"
}

func (e *KeyError) Error() string {
	return excerpt.Sprintf("%s is %s, %s", e.Key, e.Value, e.Rule)
}

// Decl is an object with declared settings. It lists the rows, or reads the values and keeps the first error.
type Decl struct {
	Compat bool // repeat the reference, which ignores values of a wrong type and rounds decimals in its own way
	*state
	values Values
	prefix string // of keys
	place  string // of keys in errors
	strict bool   // refuses wrong types even with Compat, and takes null as absent
	asked  []string
	only   string // of rows from here on, see Alone
	own    bool   // see Own
}

// state is what an object shares with those in it.
type state struct {
	listing bool
	rows    *[]Row // of a listing; nil: the keys alone are wanted
	err     error
}

// List returns the rows of a declaration, in its order.
func List(declare func(*Decl)) []Row {
	rows := make([]Row, 0, 128)
	declare(&Decl{state: &state{listing: true, rows: &rows}})
	return rows
}

// CompleteRows derives the missing parts of rows that no object reads.
func CompleteRows(rows []Row) []Row {
	return List(func(d *Decl) {
		for _, r := range rows {
			d.list(&r, r.Kind)
		}
	})
}

// Keys returns the keys of an object, sorted.
func Keys(declare func(*Decl)) []string {
	d := &Decl{state: &state{listing: true}, asked: make([]string, 0, 128)}
	declare(d)
	slices.Sort(d.asked)
	return slices.Compact(d.asked)
}

// Read reads values and returns the first error.
func Read(values Values, compat bool, declare func(*Decl)) error {
	d := &Decl{Compat: compat, values: values, state: &state{}, asked: make([]string, 0, 128)}
	declare(d)
	return d.err
}

// Listing reports whether rows are listed, with no values to read.
func (d *Decl) Listing() bool { return d.listing }

// OK reports whether values are read, and none so far is wrong.
func (d *Decl) OK() bool { return !d.listing && d.err == nil }

// Place sets the text before keys in errors.
func (d *Decl) Place(prefix string) { d.place = prefix }

// Alone makes rows from here on those of one engine, with its name in front of the help.
func (d *Decl) Alone(engine string) { d.only = engine }

// Own marks rows from here on as settings that the reference does not have, and returns a mark for RefuseSince.
func (d *Decl) Own() int {
	d.own = true
	return d.Mark()
}

// Mark returns a mark for RefuseSince.
func (d *Decl) Mark() int { return len(d.asked) }

// RefuseSince refuses keys declared since a mark, if they are given.
func (d *Decl) RefuseSince(mark int, other string) {
	for _, key := range d.asked[mark:] {
		if value, given := d.values[key]; given {
			d.FailRule(key, excerpt.CutLine(value), "requires "+other)
		}
	}
}

// RefuseOthers refuses members that were not declared.
func (d *Decl) RefuseOthers() { d.refuseOthers(nearest.Ask) }

// RefuseUnknown is RefuseOthers without the nearest name.
func (d *Decl) RefuseUnknown() { d.refuseOthers(func(string, []string) string { return "" }) }

func (d *Decl) refuseOthers(hint func(string, []string) string) {
	if keys := d.values.Unknown(d.asked); len(keys) > 0 {
		d.Fail(keys[0], excerpt.CutLine(d.values[keys[0]]), "one of "+strings.Join(d.asked, ", ")+hint(keys[0], d.asked))
	}
}

// Fail refuses the value of a key, unless an error came before it.
func (d *Decl) Fail(key, value, want string) { d.FailRule(key, value, "must be "+want) }

// FailRule is Fail with a rule that does not begin with "must be".
func (d *Decl) FailRule(key, value, rule string) {
	if d.OK() {
		d.err = &KeyError{d.place + key, value, rule}
	}
}

// FailText is Fail with the value as given.
func (d *Decl) FailText(key, want string) { d.Fail(key, excerpt.CutLine(d.values[key]), want) }

// Require refuses the value of a key that has no effect without another setting.
func (d *Decl) Require(key, other string) {
	d.FailRule(key, excerpt.CutLine(d.values[key]), "requires "+other)
}

// Stop keeps an error of another form, unless one came before it.
func (d *Decl) Stop(err error) {
	if d.OK() {
		d.err = err
	}
}

// Raw returns the text of a key, nil if it is absent.
func (d *Decl) Raw(key string) string { return string(d.values[key]) }

// Has reports whether a key is there, with whatever value.
func (d *Decl) Has(key string) bool { return d.values[key] != nil }

// Given reports whether a key has a value other than null.
func (d *Decl) Given(key string) bool { return d.Has(key) && d.Raw(key) != "null" }

// Gives is Given for members of objects, named with dots, null included.
func (d *Decl) Gives(key string) bool { return d.values.Gives(key) }

// list adds a row to a listing and notes the key.
func (d *Decl) list(r *Row, kind Kind) {
	if r.Key != "" {
		d.asked = append(d.asked, r.Key)
	}
	if d.rows == nil {
		return
	}
	row := *r
	row.Kind = Kind(firstText(string(r.Kind), string(kind)))
	row.Own = r.Own || d.own
	if d.only != "" {
		row.Only = d.only
		if row.Help != "" {
			row.Help = d.only + ": " + row.Help
		}
	}
	if row.Help != "" {
		row.Flag = firstText(r.Flag, strings.ReplaceAll(r.Key, "_", "-"))
	}
	row.Key = d.prefix + r.Key
	if r.Key == "" {
		row.Key = ""
	}
	row.Sets = firstText(r.Sets, row.Key)
	*d.rows = append(*d.rows, row)
}

func firstText(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// Preset returns the default of a setting, in words.
func (r *Row) Preset() string {
	switch {
	case r.Default != "":
		return r.Default
	case r.Value != nil:
		return fmt.Sprint(r.Value)
	case r.Kind == Bool:
		return "false"
	case r.Kind == Int, r.Kind == Real:
		return "0"
	}
	return ""
}

// InHelp returns the rows of flags, in the order of the help.
func InHelp(rows []Row) []Row {
	blocks := map[string][][]Row{} // by the flag that they follow; the rest of a block goes with its first row
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].After == "" {
			to++
		}
		blocks[rows[from].After] = append(blocks[rows[from].After], rows[from:to])
		from = to
	}
	all := make([]Row, 0, len(rows))
	var add func(after string)
	add = func(after string) {
		for _, block := range blocks[after] {
			for i := range block {
				if block[i].Help != "" {
					all = append(all, block[i])
					add(block[i].Flag)
				}
			}
		}
	}
	add("")
	return all
}

// Find returns the row of a flag, nil if there is none.
func Find(rows []Row, flag string) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Help != "" && r.Flag == flag })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// Placed returns the rows of a deployment file, in its order.
func Placed(rows []Row) []Row {
	placed := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.File.Place == 0 })
	stable.Sort(placed, func(a, b Row) int { return a.File.Place - b.File.Place })
	return placed
}

// Logged is a name in the log of a server.
type Logged struct {
	Name, Flag string
	Opposite   bool // the flag has the opposite value
}

// Logs returns the names in the log of an engine's server that stand for flags, in the order of rows. Of several names of one
// flag the last wins.
func Logs(rows []Row, engine string) (all []Logged) {
	for i := range rows {
		for name := range strings.FieldsSeq(rows[i].Log) {
			of, name, _ := strings.Cut(name, ":")
			if of != engine {
				continue
			}
			name, opposite := strings.CutPrefix(name, "!")
			all = append(all, Logged{name, rows[i].Flag, opposite})
		}
	}
	return all
}

// Unit returns the unit of a number, "" of other values.
func (r *Row) Unit() string {
	_, rest, _ := strings.Cut(r.Help, "`")
	quoted, _, _ := strings.Cut(rest, "`")
	switch {
	case r.Doc.Unit == "-":
		return ""
	case r.Doc.Unit != "":
		return r.Doc.Unit
	case r.Kind == Int, r.Kind == Real, r.Kind == Limit:
		return quoted
	}
	return ""
}

// DefaultText returns the default as the list of settings has it, "" if it has none.
func (r *Row) DefaultText() string {
	switch {
	case r.Doc.Default == "-":
		return ""
	case r.Doc.Default != "":
		return r.Doc.Default
	}
	return r.Preset()
}

// Meaning returns the text of the list of settings, which names settings that the reference does not have; "" if there is none.
func (r *Row) Meaning() string {
	text := r.Doc.Text
	if text == "" {
		text = strings.ReplaceAll(strings.TrimPrefix(r.Help, r.Only+": "), "`", "")
	}
	if text != "" && r.Own && !strings.Contains(text, "--compat") {
		text += "; not with `--compat`"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
