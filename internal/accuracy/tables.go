package accuracy

import (
	"fmt"
	"strings"
)

// SheetsTable returns a Markdown table of the rows of data sheets.
func (e *Errors) SheetsTable() string {
	t := beginTable("Run", "KV tokens", "off", "TPOT, ms", "off: mean / p50 / p99", "TTFT, ms", "off: mean / p50 / p99", "E2E, mean", "ITL, ms", "off: mean / p50 / p99", "Mean TPOT by the reference's rules")
	for i := range e.Sheets {
		r := &e.Sheets[i]
		kv, kvOff, itlMS, itl := "–", "", "", ""
		if r.KVTokens > 0 {
			kv, kvOff = fmt.Sprint(r.KVTokens), formatPercent(r.KVOff)
		}
		if r.ITL != nil {
			itlMS, itl = fmt.Sprintf("%.1f", r.ITLMS), r.ITL.String()
		}
		reference := ""
		if r.ReferenceTPOT != nil {
			reference = formatPercent(*r.ReferenceTPOT)
		}
		if r.ReferenceTTFT != nil {
			reference += ", TTFT " + formatPercent(*r.ReferenceTTFT)
		}
		fmt.Fprintf(t, "| %s | %s | %s | %.1f | %v | %.0f%s | %v | %s | %s | %s | %s |\n", r.Run, kv, kvOff, r.TPOTMS, r.TPOT,
			r.TTFTMS, formatMark(r.Queue), r.TTFT, formatPercent(r.E2EMean), itlMS, itl, reference)
	}
	return t.String()
}

// OperatorsTable returns a Markdown table of the rows of measured operators.
func (e *Errors) OperatorsTable() string {
	t := beginTable("Run", "TPOT, ms", "off: mean / p50 / p99", "TTFT, ms", "off: mean / p50 / p99", "E2E, mean", "ITL, ms", "off: mean / p50 / p99")
	for i := range e.Operators {
		r := &e.Operators[i]
		itlMS, itl := "", ""
		if r.ITL != nil {
			itlMS, itl = fmt.Sprintf("%.1f", r.ITLMS), r.ITL.String()
		}
		fmt.Fprintf(t, "| %s | %.1f | %v | %.0f%s | %v | %s | %s | %s |\n", r.Run, r.TPOTMS, r.TPOT, r.TTFTMS, formatMark(r.Queue), r.TTFT,
			formatPercent(r.E2EMean), itlMS, itl)
	}
	return t.String()
}

// FitsTable returns a Markdown table of the rows of fits.
func (e *Errors) FitsTable() string {
	t := beginTable("Fitted to", "Judged on, held out", "Rules", "TPOT: mean / p50 / p99", "TTFT: mean / p50 / p99", "E2E: mean / p50 / p99", "Noise of repeats, means")
	for i := range e.Fits {
		r := &e.Fits[i]
		judged := r.Judged
		if r.OtherLoad {
			judged += ": another load"
		}
		fmt.Fprintf(t, "| %s | %s | %s | %v | %v%s | %v | %s |\n", r.Fitted, judged, r.Rules, r.TPOT, r.TTFT, formatMark(r.Queue), r.E2E, r.Noise)
	}
	return t.String()
}

// String returns the errors as mean / p50 / p99.
func (o Off) String() string {
	quantile := func(q *float64) string {
		if q == nil {
			return "–"
		}
		return fmt.Sprintf("%+.1f", *q)
	}
	return fmt.Sprintf("%+.1f / %s / %s %%", o.Mean, quantile(o.P50), quantile(o.P99))
}

func formatPercent(x float64) string { return fmt.Sprintf("%+.1f %%", x) }

// formatMark returns a mark for rows in which TTFT is mostly queueing time.
func formatMark(queue bool) string {
	if queue {
		return " (queue)"
	}
	return ""
}

// beginTable returns the header of a Markdown table.
func beginTable(columns ...string) *strings.Builder {
	t := &strings.Builder{}
	for _, c := range columns {
		fmt.Fprint(t, strings.TrimRight("| "+c, " "), " ")
	}
	fmt.Fprintf(t, "|\n|%s\n", strings.Repeat(" --- |", len(columns)))
	return t
}
