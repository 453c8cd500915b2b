// Command plot draws the results of bench as SVG. It plots throughput and p99 against the
// number of connections, and against the number of presets.
//
//	go -C bench run ./plot [results.json [folder]]
package main

import (
	"fmt"
	"html"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

func main() {
	log.SetFlags(0)
	file, folder := "results.json", "."
	switch args := os.Args[1:]; len(args) {
	case 2:
		folder = args[1]
		fallthrough
	case 1:
		file = args[0]
	case 0:
	default:
		log.Fatal("usage: plot [results.json [folder]]")
	}
	if err := plot(file, folder); err != nil {
		log.Fatal(err)
	}
}

// plot draws the plot of each group in a file of results, if the group has one.
func plot(file, folder string) error {
	run, err := result.Read(file)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		group, axis string
		x           func(*result.Measurement) int
	}{
		{"connections", "connections", func(m *result.Measurement) int { return m.Connections }},
		{"growth", "presets stored", func(m *result.Measurement) int { return m.Presets }},
	} {
		var lines []line
		for _, m := range run.Measurements {
			if m.Group == p.group {
				lines = add(lines, m, p.x(m))
			}
		}
		if len(lines) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, p.group+".svg"), draw(p.axis, lines), 0o644); err != nil { //nolint:gosec // for everyone to read
			return err
		}
	}
	return nil
}

// line is the measurements of one work, by the value on the x-axis.
type line struct {
	work   string
	points []point
}

type point struct {
	x              int
	perSecond, p99 float64 // medians, the second in milliseconds
}

// add adds a measurement at x to the line of its work.
func add(lines []line, m *result.Measurement, x int) []line {
	i := slices.IndexFunc(lines, func(l line) bool { return l.work == m.Work })
	if i < 0 {
		i = len(lines)
		lines = append(lines, line{work: m.Work})
	}
	lines[i].points = append(lines[i].points, point{x, result.Median(m.Each(result.PerSecond)), result.Median(m.Each(result.P99)) / 1000})
	return lines
}

// The sizes of a plot, in pixels.
const (
	width, height = 380, 300 // of one panel
	margin        = 60       // around each panel
	legendRow     = 20
)

// colors can be distinguished by colour-blind people, too.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999"}

// draw draws two panels side by side, with one legend below.
func draw(axis string, lines []line) []byte {
	var svg strings.Builder
	total := height + 2*margin + (len(lines)+1)/2*legendRow
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", 2*width+3*margin, total)
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	panel(&svg, margin, "per second", axis, lines, func(p point) float64 { return p.perSecond })
	panel(&svg, width+2*margin, "p99, ms", axis, lines, func(p point) float64 { return p.p99 })
	for i, l := range lines {
		x, y := margin+i%2*(width+margin), height+2*margin+i/2*legendRow
		fmt.Fprintf(&svg, `<path d="M%d %dh24" stroke="%s" stroke-width="2"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-4, colors[i%len(colors)], x+30, y, html.EscapeString(l.work))
	}
	svg.WriteString("</svg>\n")
	return []byte(svg.String())
}

// panel draws one figure for all lines, with logarithmic axes.
func panel(svg *strings.Builder, left int, title, axis string, lines []line, figure func(point) float64) {
	var xs []int
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.points {
			xs = append(xs, p.x)
			low, high = min(low, figure(p)), max(high, figure(p))
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	bottom, top := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	atX := func(x int) float64 {
		return float64(left) + width*share(math.Log(float64(x)), math.Log(float64(xs[0])), math.Log(float64(xs[len(xs)-1])))
	}
	atY := func(y float64) float64 {
		return margin + height - height*share(math.Log10(y), float64(bottom), float64(top))
	}
	fmt.Fprintf(svg, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, margin-16, title)
	for power := bottom; power <= top; power++ {
		for _, digit := range []float64{1, 2, 5} {
			value := digit * math.Pow10(power)
			if power == top && digit > 1 {
				break
			}
			fmt.Fprintf(svg, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
				left, atY(value), width, left-6, atY(value)+4, short(value))
		}
	}
	for _, x := range xs {
		fmt.Fprintf(svg, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", atX(x), margin+height+18, short(float64(x)))
	}
	fmt.Fprintf(svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left+width, margin+height+36, axis)
	for i, l := range lines {
		var path strings.Builder
		for j, p := range l.points {
			command := "L"
			if j == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, atX(p.x), atY(figure(p)))
			fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", atX(p.x), atY(figure(p)), colors[i%len(colors)])
		}
		fmt.Fprintf(svg, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colors[i%len(colors)])
	}
}

// share returns the position of x between low (0) and high (1).
func share(x, low, high float64) float64 {
	if low == high {
		return 0.5
	}
	return (x - low) / (high - low)
}

// short writes a number with few digits, and with k or M in place of zeros.
func short(x float64) string {
	switch {
	case x >= 1e6:
		return strconv.FormatFloat(x/1e6, 'f', -1, 64) + "M"
	case x >= 1e3:
		return strconv.FormatFloat(x/1e3, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
