package formats

import (
	"math"
	"strconv"
)

// stamp is an instant as a file has it: exact in ns where that is possible,
// since an instant counted from 1970 in ns does not fit a float64.
type stamp struct {
	ns    int64
	ms    float64
	exact bool
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

func (s stamp) before(o stamp) bool {
	if s.exact && o.exact {
		return s.ns < o.ns
	}
	return s.ms < o.ms
}

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
	i, negative := 0, false
	if len(text) > 0 && text[0] == '-' {
		i, negative = 1, true
	}
	if i == len(text) || text[i] == '.' {
		return stamp{}, false
	}
	n, point := int64(0), -1
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && point < 0 {
			point = i
			continue
		}
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return stamp{}, false
		}
		n = n*10 + int64(c-'0')
	}
	fraction := 0
	if point >= 0 {
		if fraction = len(text) - point - 1; fraction == 0 {
			return stamp{}, false
		}
	}
	for ; fraction < scale; fraction++ {
		if n > math.MaxInt64/10 {
			return stamp{}, false
		}
		n *= 10
	}
	for ; fraction > scale; fraction-- { // zeros at the end are as good as none
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
	if len(text) < 19 || text[4] != '-' || text[7] != '-' || text[10] != ' ' && text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return s, false, false
	}
	year, a := parseDigits(text[0:4])
	month, b := parseDigits(text[5:7])
	day, c := parseDigits(text[8:10])
	hour, d := parseDigits(text[11:13])
	minute, e := parseDigits(text[14:16])
	second, f := parseDigits(text[17:19])
	if !(a && b && c && d && e && f) || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return s, false, false
	}
	nanos, rest, ok := parseFraction(text[19:])
	if !ok || year < 1700 || year > 2250 { // what int64 ns can hold
		return s, false, false
	}
	offset, zoned, ok := parseZone(rest)
	seconds := ((daysSince1970(year, month, day)*24+hour)*60+minute)*60 + second - offset
	return exactStamp(int64(seconds)*1e9 + int64(nanos)), zoned, ok
}

// parseDigits reads a short whole number.
func parseDigits(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(text) > 0
}

// parseFraction reads a point and up to nine digits as ns.
func parseFraction(text []byte) (nanos int, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	i, unit := 1, 100_000_000
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if i > 9 {
			return 0, nil, false
		}
		nanos += int(text[i]-'0') * unit
		unit /= 10
	}
	return nanos, text[i:], i > 1
}

// parseZone reads the offset from UTC in seconds.
func parseZone(text []byte) (seconds int, zoned, ok bool) {
	switch {
	case len(text) == 0:
		return 0, false, true
	case string(text) == "Z":
		return 0, true, true
	case len(text) != 6 || text[3] != ':' || text[0] != '+' && text[0] != '-':
		return 0, false, false
	}
	h, a := parseDigits(text[1:3])
	m, b := parseDigits(text[4:6])
	seconds = (h*60 + m) * 60
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, true, a && b && h < 24 && m < 60
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts days of the Gregorian calendar.
func daysSince1970(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	// Years start in March here, so that a leap day is the last of its year.
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1
	return days - 719468
}
