// Package schema declares settings. A setting is declared once, by a call next to the field that it sets. The
// declarations define the command-line flags, the reading of JSON objects and its errors, and the names in server
// logs. The rows also define the lines of deployment files and the list of `replay settings`.
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

// Kind is the type of a flag's value.
type Kind string

const (
	Int    Kind = "int"
	Real   Kind = "number"
	Limit  Kind = "limit" // an integer, or unlimited
	Factor Kind = "ratio" // a number, or unlimited
	Bool   Kind = "bool"
	Path   Kind = "path"
	Name   Kind = "name"
	Range  Kind = "range"  // a number, or two numbers with .. between
	Object Kind = "object" // JSON
)

// Row describes a setting.
type Row struct {
	Key     string   // key in the JSON object; in lists, with the names of the outer objects, joined with dots
	Value   any      // value of the field if the key is absent; nil: the field is unchanged
	Default string   // the default in words; "": Value
	Help    string   // help text of the flag, with the unit or type in backquotes; "": there is no flag
	Flag    string   // name of the flag; "": Key with dashes
	Sets    string   // the key that the flag sets; "": Key
	Kind    Kind     // type of the flag; "": type of the method that declares the row
	Names   []string // the allowed values, for kind Name
	Offered []string // values for completion in a shell, for other kinds
	Only    string   // the only engine with this setting; "": all engines
	Alike   bool     // the setting is the same in all pools, so that no flag sets it for one pool
	After   string   // the preceding flag in the help; "": the flag of the previous row
	Log     string   // names in server logs: "vllm:block_size sglang:page_size"; ! marks a name with the opposite value; the last name wins
	Own     bool     // the reference does not have this setting
	File    File
	Knob    Knob
	Doc     Doc
}

// File describes the line of a deployment file.
type File struct {
	Place   int // order of the line in the file; 0: there is no line
	Default string
	Help    string
}

// Knob describes the control of a setting in the explorer.
type Knob struct {
	Label, Preset string // "": none
	Choices       string // the allowed values, separated by blanks; "": Names, or any value
	Steps         string // the steps of a slider, separated by blanks
}

// Doc overrides parts of the help text in the list of settings.
type Doc struct {
	Unit, Default string // "-": none
	Text          string
	Part          string // part of the page; "": the part of the engine
}

// NoEffect is the part of settings that are checked and have no effect in logical time.
const NoEffect = "Checked, without effect in logical time"

// Value is one value, as JSON text.
type Value struct {
	Key   string // "sglang.page_size" is a member of the object sglang
	Value string
}

// KeyError reports a value that cannot be used.
type KeyError struct {
	Key   string // "sglang.page_size" for members of the object sglang
	Value string // value as written, or with defaults applied
	Rule  string // the rule that the value breaks: "must be at least 1", "requires block_size"
}

func (e *KeyError) Error() string {
	return excerpt.Sprintf("%s is %s, %s", e.Key, e.Value, e.Rule)
}

// Decl is an object with declared settings. Decl either lists the rows, or reads the values and keeps the first
// error.
type Decl struct {
	Compat bool // repeat the reference, which ignores values of a wrong type and rounds decimals differently
	*state
	values Values
	prefix string // prefix of keys in rows
	place  string // prefix of keys in errors
	strict bool   // refuse wrong types even with Compat, and treat null as absent
	asked  []string
	only   string // engine of the following rows, see Alone
	own    bool   // see Own
}

// state is shared by an object and the objects inside it.
type state struct {
	listing bool
	rows    *[]Row // rows of a listing; nil: only the keys are listed
	err     error
}

// List returns the rows of a declaration, in their order.
func List(declare func(*Decl)) []Row {
	rows := make([]Row, 0, 128)
	declare(&Decl{state: &state{listing: true, rows: &rows}})
	return rows
}

// FlagName returns the name of the row's flag, which defaults to its key with hyphens.
func (r *Row) FlagName() string { return firstText(r.Flag, strings.ReplaceAll(r.Key, "_", "-")) }

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

// Listing reports whether rows are being listed. A listing has no values.
func (d *Decl) Listing() bool { return d.listing }

// OK reports whether values are being read without an error so far.
func (d *Decl) OK() bool { return !d.listing && d.err == nil }

// Place sets the prefix of keys in errors.
func (d *Decl) Place(prefix string) { d.place = prefix }

// Alone assigns the following rows to one engine, and puts its name before their help.
func (d *Decl) Alone(engine string) { d.only = engine }

// Own marks the following rows as settings that the reference does not have, and returns a mark for RefuseSince.
func (d *Decl) Own() int {
	d.own = true
	return d.Mark()
}

// Mark returns a mark of the current position for RefuseSince.
func (d *Decl) Mark() int { return len(d.asked) }

// RefuseSince refuses the given keys that were declared after a mark, with the error that they require other.
func (d *Decl) RefuseSince(mark int, other string) {
	for _, key := range d.asked[mark:] {
		if value, given := d.values[key]; given {
			d.FailRule(key, excerpt.CutLine(value), "requires "+other)
		}
	}
}

// RefuseOthers refuses members that were not declared.
func (d *Decl) RefuseOthers() { d.refuseOthers(nearest.Ask) }

// RefuseUnknown is RefuseOthers without the hint of a similar name.
func (d *Decl) RefuseUnknown() { d.refuseOthers(func(string, []string) string { return "" }) }

func (d *Decl) refuseOthers(hint func(string, []string) string) {
	if keys := d.values.Unknown(d.asked); len(keys) > 0 {
		d.Fail(keys[0], excerpt.CutLine(d.values[keys[0]]), "one of "+strings.Join(d.asked, ", ")+hint(keys[0], d.asked))
	}
}

// Fail refuses the value of a key with the error "must be" and want, unless there was an error before.
func (d *Decl) Fail(key, value, want string) { d.FailRule(key, value, "must be "+want) }

// FailRule refuses the value of a key with the text of a rule, unless there was an error before.
func (d *Decl) FailRule(key, value, rule string) {
	if d.OK() {
		d.err = &KeyError{d.place + key, value, rule}
	}
}

// FailText calls Fail with the JSON text of the key as the value.
func (d *Decl) FailText(key, want string) { d.Fail(key, excerpt.CutLine(d.values[key]), want) }

// Require refuses the value of a key that has no effect without the setting other.
func (d *Decl) Require(key, other string) {
	d.FailRule(key, excerpt.CutLine(d.values[key]), "requires "+other)
}

// Stop records err, unless there was an error before.
func (d *Decl) Stop(err error) {
	if d.OK() {
		d.err = err
	}
}

// Raw returns the JSON text of a key, or "" if it is absent.
func (d *Decl) Raw(key string) string { return string(d.values[key]) }

// Has reports whether a key is present, with any value.
func (d *Decl) Has(key string) bool { return d.values[key] != nil }

// Given reports whether a key has a value other than null.
func (d *Decl) Given(key string) bool { return d.Has(key) && d.Raw(key) != "null" }

// Gives reports whether key, which may be the member of an object like "sglang.page_size", is present with any value.
func (d *Decl) Gives(key string) bool { return d.values.Gives(key) }

// list records the key, and adds the row to a listing.
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
		row.Flag = r.FlagName()
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

// Preset returns the default of a setting as text.
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
	blocks := map[string][][]Row{} // rows by the preceding flag; a block contains the rows up to the next row with After
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

// Find returns the row of a flag, or nil.
func Find(rows []Row, flag string) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Help != "" && r.Flag == flag })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// Placed returns the rows of a deployment file, in the order of the file.
func Placed(rows []Row) []Row {
	placed := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.File.Place == 0 })
	stable.Sort(placed, func(a, b Row) int { return a.File.Place - b.File.Place })
	return placed
}

// Logged is a name in a server log.
type Logged struct {
	Name, Flag string
	Opposite   bool // the flag has the opposite value
}

// Logs returns the names of flags in the log of an engine's server, in the order of rows. If a flag has several
// names, the last name wins.
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

// Unit returns the unit of a number, or "" for other values.
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

// DefaultText returns the default for the list of settings, or "" if there is none.
func (r *Row) DefaultText() string {
	switch {
	case r.Doc.Default == "-":
		return ""
	case r.Doc.Default != "":
		return r.Doc.Default
	}
	return r.Preset()
}

// Meaning returns the description for the list of settings, or "". Meaning adds a note to settings that the reference
// does not have.
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
