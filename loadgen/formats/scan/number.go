package scan

import (
	"strconv"

	"github.com/replay-llm/replay/internal/decimal"
	"github.com/replay-llm/replay/internal/excerpt"
)

// decimalNumber is a parsed JSON number.
type decimalNumber struct {
	decimal.Number
	text  []byte // number in the file
	whole bool   // the number has no fraction and no exponent
}

// readNumber reads a JSON number.
func (s *Scanner) readNumber() (decimalNumber, error) {
	from := s.pos
	d := decimalNumber{whole: true}
	if s.Peek() == '-' {
		d.Negative = true
		s.pos++
	}
	if err := s.wholeDigits(&d); err != nil {
		return d, err
	}
	if s.Peek() == '.' {
		s.pos++
		d.whole = false
		if err := s.eachDigit("a digit after the decimal point", d.Fraction); err != nil {
			return d, err
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		d.whole = false
		if err := s.readExponent(&d); err != nil {
			return d, err
		}
	}
	d.text = s.data[from:s.pos]
	return d, nil
}

func (s *Scanner) wholeDigits(d *decimalNumber) error {
	if s.Peek() != '0' {
		return s.eachDigit("a number", d.Whole)
	}
	s.pos++
	if isDigit(s.Peek()) {
		return s.unexpectedByte("no digit after a leading 0")
	}
	return nil
}

func (s *Scanner) readExponent(d *decimalNumber) error {
	s.pos++ // the character e
	sign, e := 1, 0
	switch s.Peek() {
	case '-':
		sign = -1
		s.pos++
	case '+':
		s.pos++
	}
	err := s.eachDigit("a digit in the exponent", func(c byte) { e = min(e*10+int(c-'0'), longExponent) })
	d.Scale(sign * e)
	return err
}

// eachDigit calls do with the next digits. No digit is an error.
func (s *Scanner) eachDigit(want string, do func(c byte)) error {
	if !isDigit(s.Peek()) {
		return s.unexpectedByte(want)
	}
	for c := s.Peek(); isDigit(c); c = s.Peek() {
		do(c)
		s.pos++
	}
	return nil
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// longExponent is the limit for exponents. Numbers with larger exponents are 0 or infinite.
const longExponent = 1 << 40

// toFloat converts d, correctly rounded. In compat mode toFloat rounds like the reference.
func (d *decimalNumber) toFloat(compat bool) (f float64, err error) {
	ok := true
	if compat || d.Nearest() {
		f, ok = d.Float()
	} else {
		f, err = strconv.ParseFloat(string(d.text), 64)
	}
	if err != nil || !ok {
		return 0, &mismatchError{text: excerpt.Cut(d.text), want: "a number that fits a float64"}
	}
	return f, nil
}
