package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

const (
	// maxMarkdown bounds a comment, in bytes. GitHub takes 65,536 characters.
	maxMarkdown = 65_000
	cutNote     = "The rest is cut. `caddy presets plan` prints all of it.\n"
)

// markdown collects a comment of a bounded size. Text of files and servers is in code alone,
// where it means nothing.
type markdown struct {
	text  strings.Builder
	isCut bool
}

// add adds a part if there is room for all of it, and else nothing ever again.
func (m *markdown) add(title, language string, lines []string) {
	part := title + "\n\n"
	if len(lines) > 0 {
		text := strings.Join(lines, "\n")
		fence := strings.Repeat("`", max(3, longestRun(text)+1))
		part += fence + language + "\n" + text + "\n" + fence + "\n\n"
	}
	if m.isCut = m.isCut || m.text.Len()+len(part) > maxMarkdown-len(cutNote); !m.isCut {
		m.text.WriteString(part)
	}
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

// writeMarkdown prints a plan as a comment, errors first, or the mistakes in files.
func writeMarkdown(w io.Writer, p *plan.Plan, mistakes files.Errors) error {
	var m markdown
	if mistakes != nil {
		m.add(fmt.Sprintf("### Presets: mistakes in the files: %d", mistakes.Count()), "text", strings.Split(terminal.EscapeText(mistakes.Error()), "\n"))
		return m.writeTo(w)
	}
	m.add(fmt.Sprintf("### Presets of %s: %s", code(p.Owner), summary(p)), "", nil)
	m.problems("Errors", p.Errors)
	for _, work := range p.Workspaces {
		m.add(fmt.Sprintf("**%s workspace** %s", work.Action, code(work.Slug)), "diff", linesOf(operations("settings", work.Settings)))
	}
	for _, c := range p.Changes {
		drift := ""
		if c.Drift {
			drift = " (drift)"
		}
		m.add(fmt.Sprintf("**%s** %s%s", c.Action, code(c.Workspace+"/"+c.Slug), drift), "diff", linesOf(details(c)))
	}
	for _, a := range p.Adopt {
		m.add("**adopt** "+code(a.Workspace+"/"+a.Slug), "", nil)
	}
	m.problems("Notes", p.Notes)
	return m.writeTo(w)
}

func (m *markdown) problems(title string, problems []plan.Problem) {
	var lines []string
	for _, problem := range problems {
		lines = append(lines, problemText(problem))
	}
	if len(lines) > 0 {
		m.add("**"+title+"**", "text", lines)
	}
}

func linesOf(all []detail) []string {
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = one.String()
	}
	return lines
}
