package tables

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Columns is the format of files with columns that --columns names.
const Columns = "columns"

// role is the field of a request that a column contains.
type role int

const (
	roleArrival role = iota
	roleInput
	roleOutput
	roleSession
	roleHash
	roleClass
	rolePriority
	roles
)

func roleNames() [roles]string {
	return [...]string{"arrival", "input", "output", "session", "hash", "class", "priority"}
}

// columnPlan is the parsed value of --columns.
type columnPlan struct {
	names [roles]string // column names; "" if there is no column
	unit  string        // unit of arrivals; "" means seconds or dates
	// layout is the format of arrivals for time.Parse. "" means numbers or ISO 8601.
	layout, format string
}

const wantColumns = "must be arrival=COLUMN,input=COLUMN,output=COLUMN, with session=, hash=, class=, priority=, arrival_unit= and arrival_format= where they help"

// CheckColumns returns an error if text is not a valid value of --columns.
func CheckColumns(text string) error {
	if text == "" {
		return nil
	}
	_, err := parseColumns(text)
	return err
}

// parseColumns parses pairs such as input=prompt_tokens. A pair with a comma in its name must be in quotes.
func parseColumns(text string) (columnPlan, error) {
	var p columnPlan
	parts, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return p, excerpt.Errorf("columns are %q, %s", text, wantColumns)
	}
	names := roleNames()
	seen := map[string]bool{}
	for _, part := range parts {
		key, column, ok := strings.Cut(part, "=")
		key, column = strings.TrimSpace(key), strings.TrimSpace(column)
		i := slices.Index(names[:], key)
		switch {
		case !ok || column == "":
			return p, excerpt.Errorf("columns have %q, %s", part, wantColumns)
		case seen[key]:
			return p, fmt.Errorf("columns have %s twice, must be given once", key)
		case key == "arrival_unit":
			if scales := "s ms us ns"; !slices.Contains(strings.Fields(scales), column) {
				return p, excerpt.Errorf("arrival_unit is %q, must be one of %s", column, scales)
			}
			p.unit = column
		case key == "arrival_format":
			if p.layout, err = parseLayout(column); err != nil {
				return p, err
			}
			p.format = column
		case i < 0:
			return p, excerpt.Errorf("columns have %q, which is unknown%s: %s", key, offerNearest(key, append(names[:], "arrival_unit", "arrival_format")), wantColumns)
		default:
			p.names[i] = column
		}
		seen[key] = true
	}
	switch {
	case p.names[roleInput] == "" || p.names[roleOutput] == "":
		return p, excerpt.Errorf("columns are %q, which lacks input or output: %s", text, wantColumns)
	case p.unit != "" && p.names[roleArrival] == "":
		return p, fmt.Errorf("columns have arrival_unit and no arrival, expected both")
	case p.layout != "" && (p.unit != "" || p.names[roleArrival] == ""):
		return p, fmt.Errorf("columns have arrival_format, which requires arrival and no arrival_unit")
	}
	return p, nil
}

// parseLayout converts a format of strptime, for example %d/%m/%Y %H:%M:%S, to a layout for time.Parse. Parsing then
// accepts a fraction after seconds.
func parseLayout(format string) (string, error) {
	layout := strings.NewReplacer(".%f", "", "%Y", "2006", "%y", "06", "%m", "1", "%d", "2", "%b", "Jan", "%B", "January", "%H", "15", "%I", "3", "%M", "4", "%S", "5",
		"%p", "PM", "%z", "-0700", "%T", "15:04:05", "%F", "2006-1-2", "%%", "%").Replace(format)
	if strings.Contains(layout, "%") || layout == format {
		return "", excerpt.Errorf("arrival_format is %q, must be a date as strptime takes it, as %%d/%%m/%%Y %%H:%%M:%%S", format)
	}
	return layout, nil
}

// offerNearest returns a suggestion for a mistyped name.
func offerNearest(typed string, names []string) string {
	if near := nearest.Name(typed, names); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// refuseColumn returns an error for a column that a row or header does not contain.
func refuseColumn(name string, have []string) error {
	const most = 20
	if len(have) == 0 {
		return excerpt.Errorf("no column %q, nor any other; must be a JSON object, or a header", name)
	}
	offer := offerNearest(name, have)
	return excerpt.Errorf("no column %q%s, must be one of %s", name, offer, excerpt.List(have, most))
}

// scale returns the decimal exponent of the unit of arrivals in ns.
func (p *columnPlan) scale() int {
	switch p.unit {
	case "ns":
		return 0
	case "us":
		return 3
	case "ms":
		return 6
	}
	return 9
}

// columnRows reads requests from rows by --columns.
type columnRows struct {
	s    *formats.Stream
	plan columnPlan
	kind string                  // type of the arrivals so far: number, date and time with a zone, or without a zone
	seen [roles]bool             // roles that occurred in an object
	ids  formats.Numbers[string] // block ids
	ends formats.LastEnds
}

// OpenColumns opens a file by the columns in the options. The file is a table with a header, or it has JSON objects.
func OpenColumns(s *formats.Stream) (formats.Reader, error) {
	plan, err := parseColumns(s.Options.Columns)
	if err != nil {
		return nil, err
	}
	c := &columnRows{s: s, plan: plan, ids: make(formats.Numbers[string]), ends: make(formats.LastEnds)}
	timed := plan.names[roleArrival] != ""
	switch {
	case !timed:
		s.PaceArrivals()
	case s.Options.Rate != 0:
		return nil, fmt.Errorf("%s: --columns names arrivals, which a rate of arrivals does not change: use one of the two", s.Name)
	}
	s.Private = plan.names[roleHash] == ""
	s.Chained = plan.names[roleSession] != "" && (s.Options.Sessions == "chain" || !timed && s.Options.Sessions != "flat")
	head, _ := s.Lines.Peek()
	if text := strings.TrimLeft(string(head), " \t\r\n"); text != "" && (text[0] == '{' || text[0] == '[') {
		return c.openObjects(text)
	}
	return c.openTable(string(head))
}

// openObjects opens JSON: an object per line, or a list of objects.
func (c *columnRows) openObjects(head string) (formats.Reader, error) {
	g := formats.Gathered{S: c.s}
	first, rest, ended := strings.Cut(head, "\n")
	second := strings.TrimLeft(rest, " \t\r\n")
	if first[0] == '{' && (!ended || scan.CheckValue([]byte(first)) == nil || strings.HasPrefix(second, "{")) {
		l := &formats.LineRows{Gathered: g}
		l.Read = func(f *scan.Fields) error { return c.readObject(f, l.Add(f.Line)) }
		return l, nil
	}
	return &g, g.EachObject(func(f *scan.Fields) error {
		var r formats.Record
		r.Line = f.Line
		err := c.readObject(f, &r)
		if err == nil && f.Err == nil {
			g.All = append(g.All, r.Clone())
		}
		return err
	})
}

// readObject fills r from an object.
func (c *columnRows) readObject(f *scan.Fields, r *formats.Record) error {
	var cells [roles][]byte
	for i, name := range c.plan.names {
		if name == "" {
			continue
		}
		v, ok := findColumn(f, name)
		if !ok && (i < int(roleSession) || !c.seen[i]) {
			return refuseColumn(name, columnNames(f))
		}
		c.seen[i] = true
		if len(v) > 0 && v[0] == '"' {
			v = scan.UnquoteString(v)
		}
		cells[i] = v
	}
	return c.fill(cells[:], r)
}

// findColumn returns the value of a member. A name with points is the path to a member of an inner object.
func findColumn(f *scan.Fields, name string) (value []byte, ok bool) {
	if f.Has(name) {
		return f.Value(name), true
	}
	first, rest, inner := strings.Cut(name, ".")
	if !inner || !f.Has(first) {
		return nil, false
	}
	sub := f.OpenMember(f.Value(first), first)
	return findColumn(sub, rest)
}

// columnNames returns the names of all members, with those of inner objects.
func columnNames(f *scan.Fields) []string {
	var names []string
	for _, m := range f.Members {
		if len(m.Value) > 0 && m.Value[0] == '{' {
			for _, sub := range columnNames(f.OpenMember(m.Value, "")) {
				names = append(names, string(m.Key)+"."+sub)
			}
			continue
		}
		names = append(names, string(m.Key))
	}
	return names
}
