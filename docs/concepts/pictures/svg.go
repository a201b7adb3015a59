package main

import (
	"fmt"
	"strings"
)

// Sizes in pixels.
const (
	width = 760.0
	left  = 96.0 // of the time axis
	right = 728.0
	lane  = 24.0
)

// picture is an SVG image with a background in the light or dark scheme of the reader.
type picture struct {
	body strings.Builder
	end  float64 // ms at the right end
}

// x returns the horizontal position of a time.
func (p *picture) x(at float64) float64 { return left + (right-left)*at/p.end }

// label is the label of a box: its color, a text that is omitted if it does not fit, and a tooltip.
type label struct{ class, text, title string }

// box draws a time span in a lane.
func (p *picture) box(y, height float64, s span, l label) {
	from, to := p.x(s.from), p.x(s.to)
	fmt.Fprintf(&p.body, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s</title></rect>`+"\n", l.class, from+0.4, y, max(to-from-0.8, 1), height, l.title)
	if l.text != "" && float64(len(l.text))*6 < to-from {
		p.text((from+to)/2, y+height/2+4, "in", l.text)
	}
}

// text draws a line of text; class is its style: in (a box), name (of a lane), head, note.
func (p *picture) text(x, y float64, class, text string) {
	fmt.Fprintf(&p.body, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, text)
}

// arrival draws the arrival of a request.
func (p *picture) arrival(y, at float64) {
	x := p.x(at)
	fmt.Fprintf(&p.body, `<path class="mark" d="M%.1f %.1fl-5 -5v10z"/>`+"\n", x, y)
}

// legend draws a row of colors with their names.
func (p *picture) legend(y float64, items ...[2]string) {
	x := left
	for _, i := range items {
		fmt.Fprintf(&p.body, `<rect class="%s" x="%.1f" y="%.1f" width="14" height="12" rx="2"/>`+"\n", i[0], x, y-10)
		p.text(x+20, y, "note", i[1])
		x += 36 + 6.1*float64(len(i[1]))
	}
}

// axis draws the time axis below the lanes.
func (p *picture) axis(y, step float64) {
	fmt.Fprintf(&p.body, `<path class="line" d="M%.1f %.1fH%.1f"/>`+"\n", left, y, right)
	for at := 0.0; at <= p.end; at += step {
		fmt.Fprintf(&p.body, `<path class="line" d="M%.1f %.1fv4"/>`+"\n", p.x(at), y)
		p.text(p.x(at), y+16, "tick", fmt.Sprintf("%.0f ms", at))
	}
}

// finish returns the picture with the given height.
func (p *picture) finish(height float64, title, description string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-labelledby="t d">
<title id="t">%s</title>
<desc id="d">%s</desc>
<style>
text{font:11px system-ui,sans-serif;fill:#222}
.back{fill:#fff}.in{text-anchor:middle;fill:#111}.tick{text-anchor:middle;fill:#555}.name{text-anchor:end}.head{font-weight:600}.note{fill:#444}
.line{stroke:#888;fill:none}.mark{fill:#222}.wait{fill:#ddd}
.c0{fill:#7db8e8}.c1{fill:#f0b35a}.c2{fill:#7fcfa8}.c3{fill:#d9a0c4}.t0{fill:#cfe4f6}.t1{fill:#fae3bf}.t2{fill:#d0eede}.t3{fill:#f2dcea}
.pass{fill:#c8c8c8}.run{fill:#e4e4e4;stroke:#999;stroke-dasharray:2 2}
@media (prefers-color-scheme:dark){text{fill:#eee}.back{fill:#16181c}.in{fill:#111}.tick,.note{fill:#bbb}.line{stroke:#777}.mark{fill:#eee}.wait{fill:#868b94}
.pass{fill:#9a9fa8}.run{fill:#7b8089;stroke:#ccc}.t0{fill:#a9c8e2}.t1{fill:#e2c48f}.t2{fill:#a6d1ba}.t3{fill:#d3b4c8}}
</style>
<rect class="back" width="%.0f" height="%.0f"/>
%s</svg>
`, width, height, width, height, title, description, width, height, p.body.String())
}
