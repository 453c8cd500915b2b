package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

const (
	// maxMarkdown bounds a comment, in bytes. GitHub takes 65,536 characters.
	maxMarkdown = 64_000
	// markdownRest is kept for the note that something is cut.
	markdownRest = 200
	cutNote      = "\n\nThe rest is cut. `caddy presets plan` prints all of it.\n"
)

// markdown collects a comment of a bounded size. Text of files and servers is in code alone,
// where it means nothing.
type markdown struct {
	text  strings.Builder
	isCut bool
}

// add adds text if there is room for it, and else nothing ever again.
func (m *markdown) add(text string) {
	if m.isCut || m.text.Len()+len(text) > maxMarkdown-markdownRest {
		m.isCut = true
		return
	}
	m.text.WriteString(text)
}

// code returns text as an inline code span, whose fence is longer than any in text.
func code(text string) string {
	text = terminal.Escape(text)
	fence := strings.Repeat("`", longestRun(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || text == "" {
		text = " " + text + " "
	}
	return fence + text + fence
}

// block adds lines as a block of code. Lines beyond the room for it are cut.
func (m *markdown) block(language string, lines []string) {
	if m.isCut || len(lines) == 0 {
		return
	}
	text := strings.Join(lines, "\n")
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	head, tail := fence+language+"\n", "\n"+fence+"\n\n"
	room := maxMarkdown - markdownRest - m.text.Len() - len(head) - len(tail)
	if room <= 0 {
		m.isCut = true
		return
	}
	if len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		text = text[:room]
		defer func() { m.isCut = true }()
	}
	m.add(head + text + tail)
}

func longestRun(text string) (longest int) {
	run := 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

func (m *markdown) writeTo(w io.Writer) error {
	if m.isCut {
		m.text.WriteString(cutNote)
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

// writeMarkdown prints a plan as a comment, or the mistakes in files. Errors come first, then the
// changes.
func writeMarkdown(w io.Writer, p *plan.Plan, mistakes files.Errors) error {
	var m markdown
	if mistakes != nil {
		m.add(fmt.Sprintf("### Presets: mistakes in the files: %d\n\n", mistakes.Count()))
		m.block("text", strings.Split(strings.TrimSuffix(terminal.EscapeText(mistakes.Error()), "\n"), "\n"))
		return m.writeTo(w)
	}
	m.add(fmt.Sprintf("### Presets of %s: %s\n\n", code(p.Owner()), summary(p)))
	m.problems("Errors", p.Errors)
	for _, work := range p.Workspaces {
		m.add(fmt.Sprintf("**%s workspace** %s\n\n", work.Action, code(work.Slug)))
		m.block("diff", linesOf(operations("settings", work.Settings)))
	}
	for _, c := range p.Changes {
		drift := ""
		if c.Drift {
			drift = " (drift)"
		}
		m.add(fmt.Sprintf("**%s** %s%s\n\n", c.Action, code(c.Workspace+"/"+c.Slug), drift))
		m.block("diff", linesOf(details(c)))
	}
	for _, a := range p.Adopt {
		m.add(fmt.Sprintf("**adopt** %s\n\n", code(a.Workspace+"/"+a.Slug)))
	}
	m.problems("Notes", p.Notes)
	return m.writeTo(w)
}

func (m *markdown) problems(title string, problems []plan.Problem) {
	if len(problems) == 0 {
		return
	}
	var lines []string
	for _, problem := range problems {
		lines = append(lines, problemText(problem))
	}
	m.add(fmt.Sprintf("**%s**\n\n", title))
	m.block("text", lines)
}

func linesOf(all []detail) []string {
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = one.String()
	}
	return lines
}
