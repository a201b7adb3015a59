package scan

import "testing"

// CalendarStamp handles leap years and zones, and rejects invalid dates.
func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		text string
		ns   int64
	}{
		{"1970-01-01 00:00:00", 0},
		{"2023-11-16 18:15:46.6805900", 1700158546680590000},
		{"2024-02-29T23:59:59.999999999Z", 1709251199999999999},
		{"2024-05-10 00:00:01.25+02:00", 1715292001250000000},
		{"1999-12-31 19:00:00-05:00", 946684800000000000},
	} {
		s, _, ok := CalendarStamp([]byte(c.text))
		if !ok || s.ns != c.ns {
			t.Errorf("%s is %d ns, %v; want %d", c.text, s.ns, ok, c.ns)
		}
	}
	for _, text := range []string{"2023-02-29 00:00:00", "2023-11-31 00:00:00", "2023-11-16 24:00:00", "2023-11-16 18:15", "2023-11-16 18:15:46.", "2023-11-16 18:15:46.1234567890", "2023-11-16 18:15:46+25:00", "2023/11/16 18:15:46"} {
		if _, _, ok := CalendarStamp([]byte(text)); ok {
			t.Errorf("%s is taken for a time", text)
		}
	}
}
