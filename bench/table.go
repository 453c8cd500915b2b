package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

// goal is a limit for a median.
type goal struct {
	limit float64
	least bool // the limit is a lower one
}

func atLeast(limit float64) goal { return goal{limit, true} }
func atMost(limit float64) goal  { return goal{limit, false} }

func (g goal) text(unit string) string {
	word := "at most "
	if g.least {
		word = "at least "
	}
	return word + withUnit(strconv.FormatFloat(g.limit, 'f', -1, 64), unit)
}

func (g goal) met(median float64) bool {
	if g.least {
		return median >= g.limit
	}
	return median <= g.limit
}

// record adds a value to a figure.
func (b *bench) record(name, unit string, value float64) {
	i := slices.IndexFunc(b.result.Figures, func(r result.Row) bool { return r.Name == name })
	if i < 0 {
		i = len(b.result.Figures)
		b.result.Figures = append(b.result.Figures, result.Row{Name: name, Unit: unit})
	}
	b.result.Figures[i].Values = append(b.result.Figures[i].Values, value)
}

// recorded returns the values of a figure, or nil if it was not recorded.
func (b *bench) recorded(name string) []float64 {
	for _, r := range b.result.Figures {
		if r.Name == name {
			return r.Values
		}
	}
	return nil
}

// judge adds the table's rows. A comparison has a ratio or difference for each round.
type judge struct{ *bench }

// row adds a comparison with a goal, if it was measured.
func (j judge) row(name, unit string, g goal, values []float64) {
	if len(values) > 0 {
		j.result.Rows = append(j.result.Rows, result.Row{
			Name: name, Unit: unit, Values: values, Goal: g.text(unit), Met: g.met(result.Median(values)),
		})
	}
}

// noise adds a comparison of the same with itself.
func (j judge) noise(name, unit string, values []float64) {
	if len(values) > 0 {
		j.result.Rows = append(j.result.Rows, result.Row{Name: name, Unit: unit, Values: values})
	}
}

func (j judge) figure(group, work string, clients int, f result.Figure) []float64 {
	return j.result.Each(result.Load{Group: group, Work: work, Connections: clients}, f)
}

// rateRatio returns the ratio of our rate to another program's rate.
func (j judge) rateRatio(group, ours, other string) []float64 {
	return ratio(j.figure(group, ours, j.clients, result.PerSecond), j.figure(group, other, j.clients, result.PerSecond))
}

// cpuRatio returns the ratio of our processor time to that of another program.
func (j judge) cpuRatio(group, ours, other string) []float64 {
	return ratio(j.figure(group, ours, j.clients, result.CPU), j.figure(group, other, j.clients, result.CPU))
}

// added returns how much longer we take than another program, with one connection.
func (j judge) added(group, ours, other string) []float64 {
	return difference(j.figure(group, ours, 1, result.P50), j.figure(group, other, 1, result.P50))
}

// judge compares the measurements with the goals and adds the table's rows.
func (b *bench) judge() {
	j := judge{b}
	row, figure, rateRatio, added := j.row, j.figure, j.rateRatio, j.added

	row("load generator alone, to stock `respond`", "×", atLeast(2), rateRatio(reads, generatorWork, respondWork))
	stored := groupDigits(b.stored)
	row("GET /v1/workspaces/{id}, "+stored+" stored, to stock `respond` of the same bytes", "×", atLeast(1), rateRatio(reads, getWork, respondWork))
	row("… p50 added, 1 connection", "µs", atMost(5), added(reads, getWork, respondWork))
	row("page of 50 workspaces, to GET of one", "×", atLeast(0.3), rateRatio(reads, workspacesWork, getWork))
	row("page of 50 presets, to GET of a workspace", "×", atLeast(0.3), rateRatio(reads, presetsWork, getWork))
	row("page of 50 presets, the same again, to GET of a workspace", "×", atLeast(0.3), rateRatio(reads, samePresetsWork, getWork))

	row("pass-through of a route that is not ours, to stock `reverse_proxy`", "×", atLeast(0.97), rateRatio(gateway, passWork, proxyWork))
	row("… p50 added, 1 connection", "µs", atMost(10), added(gateway, passWork, proxyWork))
	row("inference request without a reference, to stock `reverse_proxy`", "×", atLeast(0.97), rateRatio(gateway, inferWork, proxyWork))
	row("… p50 added, 1 connection", "µs", atMost(10), added(gateway, inferWork, proxyWork))
	row("inference request with a reference, to one without", "×", atLeast(0.85), rateRatio(gateway, resolveWork, inferWork))

	b.judgeBusy(j)

	row("durable POST /v1/workspaces, to Badger's own synced commits", "×", atLeast(2.5), rateRatio(writes, postWorkspaceWork, badgerWork))
	row("… p99", "ms", atMost(25), scaled(figure(writes, postWorkspaceWork, b.clients, result.P99), 1e-3))
	row("durable POST /v1/presets/{slug}/responses, new slug, to POST /v1/workspaces", "×", atLeast(0.6), rateRatio(writes, newPresetWork, postWorkspaceWork))
	row("… new version", "×", atLeast(0.6), rateRatio(writes, newVersionWork, postWorkspaceWork))
	row(fmt.Sprintf("%d clients on one slug, to a slug each", b.clients), "×", atLeast(0.5), rateRatio(writes, oneSlugWork, newVersionWork))
	row("one client's POST /v1/workspaces, p50 to that of a raw synced commit plus validation", "×", atMost(1.3),
		ratio(figure(writes, postWorkspaceWork, 1, result.P50), sum(figure(writes, badgerWork, 1, result.P50), b.recorded(validationFigure))))

	row("create of an equal record, to PocketBase", "×", atLeast(8), rateRatio(peer, postWorkspaceWork, pocketCreateWork))
	row("get of an equal record, to PocketBase", "×", atLeast(10), rateRatio(peer, getWork, pocketGetWork))

	body := fmt.Sprintf("held for a request of %d KiB that waits for its answer", waitingSize>>10)
	row(body+", above stock Caddy, no preset", "KiB", atMost(8), difference(b.recorded(waitingInfer), b.recorded(waitingProxy)))
	row("… preset", "KiB", atMost(8), difference(b.recorded(waitingResolve), b.recorded(waitingProxy)))

	b.judgeEtcd(row, rateRatio)
	b.judgeGrowth(row)
	b.judgeUsage(j)
	b.judgeGateways(j)
}

// judgeGrowth compares the largest number of presets with the smallest.
func (b *bench) judgeGrowth(row func(name, unit string, g goal, values []float64)) {
	few, many := b.sizes[0], b.sizes[len(b.sizes)-1]
	perSecond := func(work string, presets int) []float64 {
		return b.result.Each(result.Load{Group: growth, Work: work, Connections: b.clients, Presets: presets}, result.PerSecond)
	}
	for _, work := range []string{getWork, passWork, resolveWork, resolveAnyWork, postWorkspaceWork, newPresetWork, newVersionWork} {
		row(fmt.Sprintf("time of %s with %s presets, to that with %s", work, groupDigits(many), groupDigits(few)), "×", atMost(1.3),
			ratio(perSecond(work, few), perSecond(work, many)))
	}
	row("start with "+groupDigits(many)+" presets", "s", atMost(1), scaled(b.recorded(figureOf(startFigure, many)), 1e-3))
	// The system can reclaim the memory of mapped files at any time, but the process's
	// status includes it.
	for _, memory := range []struct{ name, figure string }{
		{"memory of its own (RssAnon), idle", idleFigure},
		{"resident memory with mapped files (VmRSS), idle", idleResidentFigure},
		{"memory of its own (RssAnon), under load", loadedFigure},
		{"resident memory with mapped files (VmRSS), under load", residentFigure},
	} {
		for i, presets := range []int{few, many} {
			row(memory.name+", above stock Caddy, "+groupDigits(presets)+" presets", "MiB", atMost([]float64{60, 150}[i]),
				difference(b.recorded(figureOf(memory.figure, presets)), b.recorded(figureOf(memory.figure, 0))))
		}
	}
	for _, presets := range []int{few, many} {
		row("idle anonymous memory, "+groupDigits(presets)+" presets, to stock Caddy", "×", atMost(1.5),
			ratio(b.recorded(figureOf(idleFigure, presets)), b.recorded(figureOf(idleFigure, 0))))
	}
}

// pairwise applies fn to both values of each round. It returns nil if one side was not
// measured.
func pairwise(x, y []float64, fn func(x, y float64) float64) []float64 {
	values := make([]float64, min(len(x), len(y)))
	for i := range values {
		values[i] = fn(x[i], y[i])
	}
	return values
}

func ratio(x, y []float64) []float64 {
	return pairwise(x, y, func(x, y float64) float64 { return x / y })
}

func difference(x, y []float64) []float64 {
	return pairwise(x, y, func(x, y float64) float64 { return x - y })
}

func sum(x, y []float64) []float64 {
	return pairwise(x, y, func(x, y float64) float64 { return x + y })
}

func scaled(x []float64, by float64) []float64 {
	return pairwise(x, x, func(x, _ float64) float64 { return x * by })
}

// report writes the tables in Markdown.
func report(out io.Writer, run *result.Run) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s, %s.\n\n```console\n$ %s\n```\n\n", run.Date, run.Machine, strings.Join(run.Versions, ", "), run.Command)
	fmt.Fprintf(&text, "| Work | Goal | Median | Rounds | |\n|---|---|---|---|---|\n")
	for _, r := range run.Rows {
		met := "missed"
		switch {
		case r.Goal == "":
			met = "noise"
		case r.Met:
			met = "met"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", r.Name, r.Goal, median(r.Values, r.Unit), spread(r.Values), met)
	}
	fmt.Fprintf(&text, "\n| Measured | Connections | Presets | Per second | Rounds | p50 | p99 | Server's CPU |\n|---|---|---|---|---|---|---|---|\n")
	for _, m := range run.Measurements {
		if m.Group == connections {
			continue // only the plots have it
		}
		presets := ""
		if m.Presets > 0 {
			presets = groupDigits(m.Presets)
		}
		rates := m.Each(result.PerSecond)
		fmt.Fprintf(&text, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", m.Work, m.Connections, presets,
			median(rates, ""), spread(rates), median(m.Each(result.P50), "µs"), median(m.Each(result.P99), "µs"), median(m.Each(result.CPU), "µs"))
	}
	if len(run.Figures) > 0 {
		fmt.Fprintf(&text, "\n| Noted | Median | Rounds |\n|---|---|---|\n")
	}
	for _, r := range run.Figures {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", r.Name, median(r.Values, r.Unit), spread(r.Values))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func median(values []float64, unit string) string {
	return withUnit(formatNumber(result.Median(values)), unit)
}

// spread writes the least and the most of values.
func spread(values []float64) string {
	return formatNumber(slices.Min(values)) + " to " + formatNumber(slices.Max(values))
}

func withUnit(number, unit string) string {
	switch unit {
	case "":
		return number
	case "×":
		return number + unit
	}
	return number + " " + unit
}

// formatNumber writes a number with three digits, or with all digits before its point.
func formatNumber(x float64) string {
	switch abs := max(x, -x); {
	case abs >= 100:
		return groupDigits(int(math.Round(x)))
	case abs >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// groupDigits writes a number with commas between groups of three digits.
func groupDigits(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
