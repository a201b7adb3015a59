package engineargs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/decimal"
)

// parseNumber converts a JSON number that fits no integer. With compat it
// repeats the reference, which writes the number out anew and then reads that
// text with roundings of its own.
func parseNumber(text string, compat bool) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, outOfRange(text)
	}
	if !compat {
		return f, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			text = "0"
		}
		return parseRough(text)
	}
	return parseRough(writeFloat(f))
}

// parseRough returns the reference's reading of a JSON number.
func parseRough(text string) (float64, error) {
	f, ok := decimal.Parse(text)
	if !ok {
		return 0, outOfRange(text)
	}
	return f, nil
}

func outOfRange(text string) error {
	return fmt.Errorf("is %s, want a number that a float64 can hold", text)
}

// writeFloat writes the shortest digits that read back as f: positional from
// 1e-4 up to 1e16, with an exponent beyond.
func writeFloat(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(text, "e")
	if x, _ := strconv.Atoi(exponent); x < -4 || x >= 16 {
		return text
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
