package docs

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/schema"
)

// writeTable returns the lines of the reference page for rows, in Markdown.
func writeTable(rows []schema.Row) string {
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
		fmt.Fprintf(text, "|%s|%s|%s|%s| %s |\n", padCell(key), padCell(flag), padCell(r.Unit()), padCell(pageDefault(r)), meaningOf(r))
	}
	return text.String()
}

func padCell(text string) string {
	if text == "" {
		return " "
	}
	return " " + text + " "
}

func pageDefault(r *schema.Row) string {
	switch {
	case r.Doc.Default == "-":
		return ""
	case r.Doc.Default != "":
		return r.Doc.Default
	}
	return r.Preset()
}

// meaningOf returns the text of the page, which says that the reference does not have the setting.
func meaningOf(r *schema.Row) string {
	text := r.Doc.Text
	if text == "" {
		text = strings.ReplaceAll(strings.TrimPrefix(r.Help, r.Only+": "), "`", "")
	}
	if r.Own && !strings.Contains(text, "--compat") {
		text += "; not with `--compat`"
	}
	return text
}
