package schema

import (
	"fmt"
	"strings"
)

// Table returns the lines of the reference page for rows, in Markdown.
func Table(rows []Row) string {
	text := &strings.Builder{}
	text.WriteString("| Key | Flag | Unit | Default | Meaning |\n| --- | --- | --- | --- | --- |\n")
	for i := range rows {
		r := &rows[i]
		key, flag := "", ""
		if r.Key != "" {
			key = "`" + r.Key + "`"
		}
		if r.Flag != "" {
			flag = "`--" + r.Flag + "`"
		}
		fmt.Fprintf(text, "|%s|%s|%s|%s| %s |\n", padCell(key), padCell(flag), padCell(r.Unit()), padCell(r.pageDefault()), r.meaning())
	}
	return text.String()
}

func padCell(text string) string {
	if text == "" {
		return " "
	}
	return " " + text + " "
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

func (r *Row) pageDefault() string {
	switch {
	case r.Doc.Default == "-":
		return ""
	case r.Doc.Default != "":
		return r.Doc.Default
	}
	return r.Preset()
}

// meaning returns the text of the page, by which the reference is told not to have the setting.
func (r *Row) meaning() string {
	text := r.Doc.Text
	if text == "" {
		text = strings.ReplaceAll(strings.TrimPrefix(r.Help, r.Only+": "), "`", "")
	}
	if r.Own && !strings.Contains(text, "--compat") {
		text += "; not with `--compat`"
	}
	return text
}
