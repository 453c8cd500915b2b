package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// maxValue is how many bytes of a setting's value a line has. JSON has it whole.
const maxValue = 400

// detail is a line about a change. Its mark is +, - or ! for something that is added, removed
// or replaced. In a prompt it is @ for a place and = for a line that stays. Else it is a space.
type detail struct {
	mark byte
	text string
}

// details returns the lines that describe a change. They are safe to print.
func details(c *plan.Change) []detail {
	var all []detail
	say := func(format string, args ...any) { all = append(all, detail{' ', fmt.Sprintf(format, args...)}) }
	if c.Drift {
		say("drift: somebody overrode the owner after the last apply")
	}
	if c.Action == plan.Restore {
		say("its version is compared when it is restored, and brought up to date")
	}
	if c.Earlier > 0 {
		say("earlier versions that are made first: %d", c.Earlier)
	}
	if c.Designate != 0 {
		say("version %d is as the file says, and is designated", c.Designate)
	}
	if c.Dialect != nil {
		from, _ := c.Dialect.From.MarshalText() // never fails
		to, _ := c.Dialect.To.MarshalText()
		say("API: %s -> %s", terminal.Escape(string(from)), terminal.Escape(string(to)))
	}
	all = append(all, operations("preset", c.Preset)...)
	all = append(all, operations("settings", c.Settings)...)
	if c.Prompt != nil {
		say("prompt:")
		all = append(all, diffLines(*c.Prompt)...)
	}
	all = append(all, operations("template", c.Template)...)
	if len(c.Labels) > 0 {
		say("labels:")
	}
	for _, l := range c.Labels {
		switch {
		case l.To == nil:
			all = append(all, detail{'-', fmt.Sprintf("%s %s", terminal.Escape(l.Label), l.From)})
		case l.From == nil:
			all = append(all, detail{'+', fmt.Sprintf("%s %s", terminal.Escape(l.Label), l.To)})
		default:
			all = append(all, detail{'!', fmt.Sprintf("%s %s -> %s", terminal.Escape(l.Label), l.From, l.To)})
		}
	}
	if len(c.Inputs) > 0 {
		say("inputs:")
	}
	for _, in := range c.Inputs {
		mark := map[plan.Action]byte{plan.Create: '+', plan.Remove: '-'}[in.Action]
		all = append(all, detail{cmp.Or(mark, '!'), terminal.Escape(in.Name)})
	}
	return append(all, operations("policy", c.Policy)...)
}

// operations returns a line with the old and the new value for each operation of a JSON Patch, under a title.
func operations(title string, patch []diff.Operation) []detail {
	if len(patch) == 0 {
		return nil
	}
	all := []detail{{' ', title + ":"}}
	for _, o := range patch {
		mark := byte('!')
		switch o.Op {
		case "add":
			mark = '+'
		case "remove":
			mark = '-'
		}
		line := terminal.Escape(o.Path)
		if o.Path == "" { // null is what is not there
			line = "all"
			if string(o.Value) == "null" {
				mark, o.Value = '-', nil
			}
			if string(o.Old) == "null" {
				mark, o.Old = '+', nil
			}
		}
		if o.Old != nil {
			line += " " + shortJSON(o.Old)
		}
		if o.Old != nil && o.Value != nil {
			line += " ->"
		}
		if o.Value != nil {
			line += " " + shortJSON(o.Value)
		}
		all = append(all, detail{mark, line})
	}
	return all
}

// shortJSON returns JSON in a line, cut if it is long.
func shortJSON(value json.RawMessage) string {
	whole := string(value)
	if len(whole) <= maxValue {
		return terminal.Escape(whole)
	}
	return fmt.Sprintf("%s… (%d bytes)", terminal.Escape(strings.ToValidUTF8(whole[:maxValue], "")), len(whole))
}

func diffLines(diff string) []detail {
	var all []detail
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		mark := byte('=')
		isHead := len(all) < 2 // a prompt may have such lines, too
		switch {
		case isHead, strings.HasPrefix(line, "@@"), strings.HasPrefix(line, `\`):
			all = append(all, detail{'@', terminal.EscapeText(line)})
			continue
		case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "-"):
			mark, line = line[0], line[1:]
		default:
			line = strings.TrimPrefix(line, " ")
		}
		all = append(all, detail{mark, terminal.EscapeText(line)})
	}
	return all
}

// String returns the line without an indent.
func (d detail) String() string {
	switch d.mark {
	case '@', ' ':
		return d.text
	case '=':
		return "  " + d.text
	default:
		return string(d.mark) + " " + d.text
	}
}

var colors = map[byte]string{'+': green, '-': red, '!': yellow, '@': cyan}

func writePlan(w io.Writer, p *plan.Plan) error {
	out := bufio.NewWriter(w)
	printPlan(out, p, "  ", painterOf(w))
	fmt.Fprintln(out, summary(p))
	return out.Flush()
}

// printPlan prints a plan to memory without its summary. Each detail of a change has an indent.
func printPlan(out io.Writer, p *plan.Plan, indent string, paint painter) {
	section := func(title string, lines []detail) {
		fmt.Fprintln(out, paint(bold, title))
		for _, line := range lines {
			fmt.Fprintln(out, indent+paint(colors[line.mark], line.String()))
		}
		fmt.Fprintln(out)
	}
	for _, work := range p.Workspaces {
		section(fmt.Sprintf("%s workspace %s", work.Action, terminal.Escape(work.Slug)), operations("settings", work.Settings))
	}
	for _, c := range p.Changes {
		section(fmt.Sprintf("%s %s/%s", c.Action, terminal.Escape(c.Workspace), terminal.Escape(c.Slug)), details(c))
	}
	for _, a := range p.Adopt {
		fmt.Fprintf(out, "%s\n", paint(bold, fmt.Sprintf("adopt %s/%s", terminal.Escape(a.Workspace), terminal.Escape(a.Slug))))
	}
	if len(p.Adopt) > 0 {
		fmt.Fprintf(out, "%sequal to their files, and nobody's: %s gets them\n\n", indent, terminal.Escape(p.Owner))
	}
	for _, list := range []struct {
		kind     string
		problems []plan.Problem
	}{{"note", p.Notes}, {"error", p.Errors}} {
		for _, problem := range list.problems {
			fmt.Fprintln(out, list.kind+": "+problemText(problem))
		}
	}
}

func problemText(p plan.Problem) string {
	if p.Slug == "" {
		return fmt.Sprintf("workspace %s: %s", terminal.Escape(p.Workspace), terminal.Escape(p.Message))
	}
	return fmt.Sprintf("%s/%s %s", terminal.Escape(p.Workspace), terminal.Escape(p.Slug), terminal.Escape(p.Message))
}
