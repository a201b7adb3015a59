package scan

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stamp is a time in a file. If possible it is exact in ns, because a float64 cannot represent ns since 1970.
type Stamp struct {
	ns    int64
	MS    float64
	exact bool
	Free  bool // its 0 is not the start of the trace: it is a date, or was computed from another time
}

// NS returns the time in ns. exact is false if it is not an integer.
func (s Stamp) NS() (ns int64, exact bool) { return s.ns, s.exact }

// ExactStamp returns the time of ns.
func ExactStamp(ns int64) Stamp { return Stamp{ns: ns, MS: float64(ns) / 1e6, exact: true} }

// Since returns the time from o to s in ms. For exact times the returned time is rounded only once.
func (s Stamp) Since(o Stamp) float64 {
	if s.exact && o.exact {
		if d, ok := subtractNS(s.ns, o.ns); ok {
			return float64(d) / 1e6
		}
	}
	return s.MS - o.MS
}

// Compare returns the order of s and o, like cmp.Compare.
func (s Stamp) Compare(o Stamp) int { return cmp.Compare(s.Since(o), 0) }

// Plus returns the sum of s and o.
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

// DecimalStamp parses a decimal number in units of 10^scale ns. For seconds, scale is 9. The result is exact if it is
// an integer number of ns.
func DecimalStamp(text []byte, scale int) (Stamp, bool) {
	if s, ok := wholeStamp(text, scale); ok {
		return s, true
	}
	f, err := strconv.ParseFloat(string(text)+"e"+strconv.Itoa(scale-6), 64)
	if err != nil { // for example a number with an exponent
		if f, err = strconv.ParseFloat(string(text), 64); err != nil {
			return Stamp{}, false
		}
		f *= math.Pow10(scale - 6)
	}
	return Stamp{MS: f}, !math.IsInf(f, 0) && !math.IsNaN(f)
}

// wholeStamp parses a decimal number that is an integer in ns.
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
	for range len(fraction) - scale { // zeros at the end are permitted
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

// CalendarStamp parses a time such as 2023-11-16 18:15:46.6805900. The separator is a blank or T, and seconds have up
// to nine decimals. A zone is optional: Z or an offset. zoned reports whether there was a zone.
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
	if err != nil || at.Year() < 1700 || at.Year() > 2250 { // range of int64 ns
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
