package formats

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// stamp is an instant as a file has it: exact in ns where that is possible,
// since an instant counted from 1970 in ns does not fit a float64.
type stamp struct {
	ns    int64
	ms    float64
	exact bool
	free  bool // its 0 is no beginning: it is a date, or was counted back from another
}

// Instant is an instant of a file, to count others from.
type Instant struct{ stamp stamp }

func exactStamp(ns int64) stamp { return stamp{ns: ns, ms: float64(ns) / 1e6, exact: true} }

// since is the time from o to s in ms, rounded once where both are exact.
func (s stamp) since(o stamp) float64 {
	if s.exact && o.exact {
		if d, ok := subtractNS(s.ns, o.ns); ok {
			return float64(d) / 1e6
		}
	}
	return s.ms - o.ms
}

// compare orders instants as package cmp does.
func (s stamp) compare(o stamp) int { return cmp.Compare(s.since(o), 0) }

// plus is s later by ms.
func (s stamp) plus(o stamp) stamp {
	if s.exact && o.exact {
		if d, ok := subtractNS(s.ns, -o.ns); ok {
			return exactStamp(d)
		}
	}
	return stamp{ms: s.ms + o.ms}
}

func subtractNS(a, b int64) (int64, bool) {
	d := a - b
	return d, (d < a) == (b > 0)
}

// decimalStamp reads a decimal number of units of 10^scale ns, such as seconds
// with scale 9. It is exact when it is a whole number of ns.
func decimalStamp(text []byte, scale int) (stamp, bool) {
	if s, ok := wholeStamp(text, scale); ok {
		return s, true
	}
	f, err := strconv.ParseFloat(string(text)+"e"+strconv.Itoa(scale-6), 64)
	if err != nil { // such as a number with an exponent of its own
		if f, err = strconv.ParseFloat(string(text), 64); err != nil {
			return stamp{}, false
		}
		f *= math.Pow10(scale - 6)
	}
	return stamp{ms: f}, !math.IsInf(f, 0) && !math.IsNaN(f)
}

// wholeStamp reads digits with at most one point and no more digits after it
// than scale.
func wholeStamp(text []byte, scale int) (stamp, bool) {
	digits, negative := strings.CutPrefix(string(text), "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if digits == "" || digits[0]-'0' > 9 || point && fraction == "" {
		return stamp{}, false
	}
	n, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil {
		return stamp{}, false
	}
	for range scale - len(fraction) {
		if n > math.MaxInt64/10 {
			return stamp{}, false
		}
		n *= 10
	}
	for range len(fraction) - scale { // zeros at the end are as good as none
		if n%10 != 0 {
			return stamp{}, false
		}
		n /= 10
	}
	if negative {
		n = -n
	}
	return exactStamp(n), true
}

// calendarStamp reads 2023-11-16 18:15:46.6805900, with a blank or T between
// date and time, up to nine digits of a second, and Z, a zone or nothing at the
// end. It says whether there was a zone.
func calendarStamp(text []byte) (s stamp, zoned, ok bool) {
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
	s = exactStamp(at.UnixNano())
	s.free = true
	return s, zoned, true
}
