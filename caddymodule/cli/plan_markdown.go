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
	// maxMarkdown bounds the text of a comment with its fences, in bytes. GitHub takes 65,536 characters.
	maxMarkdown = 65_000
	cutNote     = "The rest is cut. `caddy presets plan` prints all of it.\n"
)

// writeMarkdown prints a plan, or the mistakes in files, as a comment. Text of files and servers is in
// one block of code, where it means nothing.
func writeMarkdown(w io.Writer, p *plan.Plan, mistakes files.Errors) error {
	var title, language, text, note string
	if mistakes != nil {
		title, language = fmt.Sprintf("Presets: mistakes in the files: %d", len(mistakes)), "text"
		text = terminal.EscapeText(mistakes.Error()) + "\n"
	} else {
		var lines strings.Builder
		printPlan(&lines, p, "", func(_, text string) string { return text })
		title, language, text = fmt.Sprintf("Presets of `%s`: %s", p.Owner, summary(p)), "diff", lines.String()
	}
	for {
		fence := strings.Repeat("`", max(3, longestRun(text)+1))
		if len(text)+2*len(fence) <= maxMarkdown {
			_, err := fmt.Fprintf(w, "### %s\n\n%s%s\n%s%s\n%s", title, fence, language, text, fence, note)
			return err
		}
		end := strings.LastIndexByte(text[:min(len(text)-1, maxMarkdown-6)], '\n')
		text, note = text[:end+1], cutNote
	}
}

// longestRun returns how many backticks stand in a row at most.
func longestRun(text string) (longest int) {
	run := 0
	for i := range len(text) {
		if run++; text[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
