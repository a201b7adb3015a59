package scan

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stamp is an instant as a file has it: exact in ns where that is possible,
// since an instant counted from 1970 in ns does not fit a float64.
type Stamp struct {
	ns    int64
	MS    float64
	exact bool
	Free  bool // its 0 is no beginning: it is a date, or was counted back from another
}

// NS returns the instant in ns, if it is a whole number of them.
func (s Stamp) NS() (ns int64, exact bool) { return s.ns, s.exact }

// ExactStamp returns the instant of ns.
func ExactStamp(ns int64) Stamp { return Stamp{ns: ns, MS: float64(ns) / 1e6, exact: true} }

// Since is the time from o to s in ms, rounded once where both are exact.
func (s Stamp) Since(o Stamp) float64 {
	if s.exact && o.exact {
		if d, ok := subtractNS(s.ns, o.ns); ok {
			return float64(d) / 1e6
		}
	}
	return s.MS - o.MS
}

// Compare orders instants as package cmp does.
func (s Stamp) Compare(o Stamp) int { return cmp.Compare(s.Since(o), 0) }

// Plus is s later by ms.
func (s Stamp) Plus(o Stamp) Stamp {
	if s.exact && o.exact {
		if d, ok := subtractNS(s.ns, -o.ns); ok {
			return ExactStamp(d)
		}
	}
	return Stamp{MS: s.MS + o.MS}
}

func subtractNS(a, b int64) (int64, bool) {
	d := a - b
	return d, (d < a) == (b > 0)
}

// DecimalStamp reads a decimal number of units of 10^scale ns, such as seconds
// with scale 9. It is exact when it is a whole number of ns.
func DecimalStamp(text []byte, scale int) (Stamp, bool) {
	if s, ok := wholeStamp(text, scale); ok {
		return s, true
	}
	f, err := strconv.ParseFloat(string(text)+"e"+strconv.Itoa(scale-6), 64)
	if err != nil { // such as a number with an exponent
		if f, err = strconv.ParseFloat(string(text), 64); err != nil {
			return Stamp{}, false
		}
		f *= math.Pow10(scale - 6)
	}
	return Stamp{MS: f}, !math.IsInf(f, 0) && !math.IsNaN(f)
}

// wholeStamp reads digits with at most one point and no more digits after it
// than scale.
func wholeStamp(text []byte, scale int) (Stamp, bool) {
	digits, negative := strings.CutPrefix(string(text), "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if digits == "" || digits[0]-'0' > 9 || point && fraction == "" {
		return Stamp{}, false
	}
	n, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil {
		return Stamp{}, false
	}
	for range scale - len(fraction) {
		if n > math.MaxInt64/10 {
			return Stamp{}, false
		}
		n *= 10
	}
	for range len(fraction) - scale { // zeros at the end are as good as none
		if n%10 != 0 {
			return Stamp{}, false
		}
		n /= 10
	}
	if negative {
		n = -n
	}
	return ExactStamp(n), true
}

// CalendarStamp reads 2023-11-16 18:15:46.6805900, with a blank or T between date and time, up to nine digits of a
// second, and Z, a zone or nothing at the end. It returns whether there was a zone.
func CalendarStamp(text []byte) (s Stamp, zoned, ok bool) {
	layout := []byte("2006-01-02 15:04:05")
	if len(text) < len(layout) || text[10] != ' ' && text[10] != 'T' || text[13] != ':' {
		return s, false, false
	}
	layout[10] = text[10]
	zone := text[len(layout):]
	if len(zone) > 0 && zone[0] == '.' {
		after := bytes.TrimLeft(zone[1:], "0123456789")
		if n := len(zone) - 1 - len(after); n < 1 || n > 9 {
			return s, false, false
		}
		zone = after
	}
	if zoned = len(zone) > 0; zoned {
		layout = append(layout, "Z07:00"...)
		offset := len(zone) == 6 && (zone[0] == '+' || zone[0] == '-') && string(zone[1:3]) < "24" && zone[4] < '6'
		if !offset && string(zone) != "Z" {
			return s, false, false
		}
	}
	at, err := time.ParseInLocation(string(layout), string(text), time.UTC)
	if err != nil || at.Year() < 1700 || at.Year() > 2250 { // what int64 ns can hold
		return s, false, false
	}
	s = ExactStamp(at.UnixNano())
	s.Free = true
	return s, zoned, true
}

func (s Stamp) Minus(o Stamp) Stamp {
	o.ns, o.MS = -o.ns, -o.MS
	return s.Plus(o)
}
