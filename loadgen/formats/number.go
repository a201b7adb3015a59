package formats

import (
	"strconv"

	"github.com/replay-llm/replay/internal/decimal"
)

// decimalNumber is a JSON number.
type decimalNumber struct {
	decimal.Number
	text  []byte // as written
	whole bool   // there is no fraction and no exponent
}

// readNumber reads a JSON number.
func (s *scanner) readNumber() (decimalNumber, error) {
	from := s.pos
	d := decimalNumber{whole: true}
	if s.peek() == '-' {
		d.Negative = true
		s.pos++
	}
	if err := s.wholeDigits(&d); err != nil {
		return d, err
	}
	if s.peek() == '.' {
		if err := s.fractionDigits(&d); err != nil {
			return d, err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		if err := s.readExponent(&d); err != nil {
			return d, err
		}
	}
	d.text = s.data[from:s.pos]
	return d, nil
}

func (s *scanner) wholeDigits(d *decimalNumber) error {
	c := s.peek()
	if c < '0' || c > '9' {
		return s.unexpectedByte("a number")
	}
	if c == '0' {
		s.pos++
		if c := s.peek(); c >= '0' && c <= '9' {
			return s.unexpectedByte("no digit after a leading 0")
		}
		return nil
	}
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		d.Whole(c)
		s.pos++
	}
	return nil
}

func (s *scanner) fractionDigits(d *decimalNumber) error {
	s.pos++ // the point
	d.whole = false
	if c := s.peek(); c < '0' || c > '9' {
		return s.unexpectedByte("a digit after the decimal point")
	}
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		d.Fraction(c)
		s.pos++
	}
	return nil
}

func (s *scanner) readExponent(d *decimalNumber) error {
	s.pos++ // the e
	d.whole = false
	sign := 1
	switch s.peek() {
	case '-':
		sign = -1
		s.pos++
	case '+':
		s.pos++
	}
	if c := s.peek(); c < '0' || c > '9' {
		return s.unexpectedByte("a digit in the exponent")
	}
	e := 0
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		e = min(e*10+int(c-'0'), longExponent)
		s.pos++
	}
	d.Scale(sign * e)
	return nil
}

// longExponent stands for all exponents beyond it: every number is 0 or
// infinite long before.
const longExponent = 1 << 40

// toFloat converts d, correctly rounded.
func (d *decimalNumber) toFloat() (float64, error) {
	if d.Nearest() {
		return d.toCompat()
	}
	f, err := strconv.ParseFloat(string(d.text), 64)
	if err != nil {
		return 0, d.overflowError()
	}
	return f, nil
}

// toCompat converts d with the roundings of the reference.
func (d *decimalNumber) toCompat() (float64, error) {
	f, ok := d.Float()
	if !ok {
		return 0, d.overflowError()
	}
	return f, nil
}

func (d *decimalNumber) overflowError() error {
	return &mismatchError{cutExcerpt(d.text), "a number that fits a float64"}
}
