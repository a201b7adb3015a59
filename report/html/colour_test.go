package html

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

// seen returns the matrices by which people see a colour (linear RGB), with normal vision and without one kind of
// cones, from Machado, Oliveira and Fernandes (2009).
func seen() map[string][9]float64 {
	return map[string][9]float64{
		"everybody":    {1, 0, 0, 0, 1, 0, 0, 0, 1},
		"protanopia":   {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
		"deuteranopia": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
		"tritanopia":   {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
	}
}

type linear [3]float64

// luminance returns the relative luminance of WCAG.
func (c linear) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func (c linear) contrast(d linear) float64 {
	a, b := c.luminance(), d.luminance()
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// lab returns a colour in CIE L*a*b*, where distances are perceived differences.
func (c linear) lab(eye [9]float64) (lab [3]float64) {
	var s linear
	for i := range s {
		s[i] = min(1, max(0, eye[3*i]*c[0]+eye[3*i+1]*c[1]+eye[3*i+2]*c[2]))
	}
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124564*s[0] + 0.3575761*s[1] + 0.1804375*s[2]) / 0.95047)
	y := f(0.2126729*s[0] + 0.7151522*s[1] + 0.0721750*s[2])
	z := f((0.0193339*s[0] + 0.1191920*s[1] + 0.9503041*s[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// schemes returns the colours of the page by name, light and dark.
func schemes(t *testing.T) map[string]map[string]linear {
	t.Helper()
	text, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, found := strings.Cut(string(text), "@media (prefers-color-scheme: dark)")
	dark, _, _ = strings.Cut(dark, "* {")
	if !found {
		t.Fatal("the page has no dark scheme")
	}
	all := map[string]map[string]linear{"light": {}, "dark": {}}
	for name, text := range map[string]string{"light": light, "dark": dark} {
		for _, m := range regexp.MustCompile(`--(\w+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(text, -1) {
			if len(m[2]) == 3 {
				m[2] = regexp.MustCompile(`.`).ReplaceAllString(m[2], "$0$0")
			}
			var c [3]uint8
			if _, err := fmt.Sscanf(m[2], "%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
				t.Fatal(err)
			}
			var l linear
			for i, v := range c {
				if s := float64(v) / 255; s <= 0.04045 {
					l[i] = s / 12.92
				} else {
					l[i] = math.Pow((s+0.055)/1.055, 2.4)
				}
			}
			all[name][m[1]] = l
		}
	}
	return all
}

// People with colour blindness can distinguish the colours of lines, and these contrast with the card. The colours of
// text have enough contrast to read.
func TestColoursAreToldApart(t *testing.T) {
	const apart, line, word = 15, 3, 4.5
	for scheme, colours := range schemes(t) {
		for i := range 8 {
			a := colours[fmt.Sprint("c", i)]
			want := float64(line)
			if i == 1 || i == 2 || i == 4 { // colours of words: backlogged, better, worse
				want = word
			}
			if got := a.contrast(colours["card"]); got < want {
				t.Errorf("%s: c%d has a contrast of %.2f, want %v", scheme, i, got, want)
			}
			for j := range i {
				for who, eye := range seen() {
					p, q := a.lab(eye), colours[fmt.Sprint("c", j)].lab(eye)
					if d := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]); d < apart {
						t.Errorf("%s: c%d and c%d are %.1f apart for %s, want %d", scheme, j, i, d, who, apart)
					}
				}
			}
		}
		for _, name := range []string{"ink", "soft"} {
			if got := colours[name].contrast(colours["card"]); got < word {
				t.Errorf("%s: %s has a contrast of %.2f, want %v", scheme, name, got, word)
			}
		}
	}
}
