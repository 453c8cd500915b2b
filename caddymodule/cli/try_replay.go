package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
	"github.com/caddy-presets/caddy-presets/domain/usage/transcript"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const (
	// maxLine bounds a line of the log of content. Each of its sides has 256 KiB at most, and its
	// characters may be escaped.
	maxLine = 16 << 20
	// columnWidth is the width of each answer in characters.
	columnWidth = 58
)

// loggedLine is a line of the log of content.
type loggedLine struct {
	RequestID  string               `json:"request_id"`
	Begun      string               `json:"begun"`
	Workspace  string               `json:"workspace"`
	Preset     string               `json:"preset"`
	Model      string               `json:"model"`
	Dialect    domain.Dialect       `json:"dialect"`
	Tokens     *answerTokens        `json:"tokens"`
	Cost       string               `json:"cost"`
	DurationMS int64                `json:"duration_ms"`
	Sent       jsontext.Value       `json:"sent"`
	Request    jsontext.Value       `json:"request"`
	Answer     []transcript.Message `json:"answer"`
	Cut        []string             `json:"cut"`
	Files      []string             `json:"files"`
	Masked     []string             `json:"masked"`
}

type answerTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// replayed is an answer of the log, or one to the same request now.
type replayed struct {
	Preset       string               `json:"preset"`
	Model        string               `json:"model"`
	Usage        *trialUsage          `json:"usage"` // null if the answer does not say
	Milliseconds int64                `json:"milliseconds"`
	Answer       []transcript.Message `json:"answer"`
	Error        string               `json:"error,omitempty"`
}

// replay is what --json prints of a line.
type replay struct {
	RequestID string   `json:"request_id"`
	Begun     string   `json:"begun"`
	Before    replayed `json:"before"`
	After     replayed `json:"after"`
}

// replayFile sends requests of a log to the preset, and prints both answers to each.
func (t *trial) replayFile(cmd *cobra.Command, a api, slug string) error {
	p, _, err := a.preset(cmd.Context(), slug)
	if err != nil {
		return err
	}
	in := cmd.InOrStdin()
	if t.replay != "-" {
		file, err := os.Open(t.replay)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	all := []replay{}
	failed, others := 0, 0
	for n := 1; len(all) < t.limit && lines.Scan(); n++ {
		line, request, err := t.readLine(p, lines.Bytes())
		switch {
		case errors.Is(err, errOtherPreset):
			others++
			continue
		case err != nil:
			fmt.Fprintf(cmd.ErrOrStderr(), "Line %d is left out: %v\n", n, err)
			continue
		}
		r := replay{RequestID: line.RequestID, Begun: line.Begun, Before: line.answered()}
		if r.After, err = a.sendAgain(cmd.Context(), line.Dialect, request); err != nil {
			if cmd.Context().Err() != nil {
				return err
			}
			failed++
			r.After.Error = err.Error()
		}
		if all = append(all, r); !t.asJSON {
			r.print(cmd.OutOrStdout())
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", t.replay, err)
	}
	if others > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d lines of other presets or workspaces are left out.\n", others)
	}
	if t.asJSON {
		text, err := jsonv2.Marshal(all)
		if err != nil {
			return err
		}
		if err := printJSON(cmd, &client.Response{Data: text}); err != nil {
			return err
		}
	}
	switch {
	case len(all) == 0:
		return errors.New("no line has a request of the preset that can be sent again")
	case failed > 0:
		return fmt.Errorf("%d of %d requests failed", failed, len(all))
	}
	return nil
}

var errOtherPreset = errors.New("it is of another preset")

// readLine reads a line of the log, and returns the request that it makes of the preset.
func (t *trial) readLine(p client.Preset, text []byte) (line loggedLine, request jsontext.Value, err error) {
	if err := jsonv2.Unmarshal(text, &line); err != nil || line.Request == nil && line.Sent == nil {
		return line, nil, errors.New("it is no line of the log of content, or has no request")
	}
	own, side := line.Sent, "sent"
	if own == nil {
		own, side = line.Request, "request"
	}
	named, _, _ := strings.Cut(line.Preset, "@")
	switch {
	case line.Workspace != p.WorkspaceID, named != "" && named != p.Slug:
		return line, nil, errOtherPreset
	case line.Dialect == domain.Images:
		return line, nil, errors.New("it is of a route for images")
	case !line.Dialect.Valid():
		return line, nil, fmt.Errorf("the API %q is not known", line.Dialect)
	case slices.Contains(line.Cut, side) || own.Kind() != '{':
		return line, nil, errors.New("the log does not have its whole request")
	case slices.Contains(line.Files, side):
		return line, nil, errors.New("the log does not have the images and files of its request")
	case slices.Contains(line.Masked, side):
		return line, nil, errors.New("the log does not have the keys in its request")
	}
	return line, replayOf(own, named != "", p.Slug, t.version), nil
}

// replayOf returns a client's own request for a version of a preset, which ref names. hasPreset tells that it
// names the preset in any way. Its own model stays then.
func replayOf(own jsontext.Value, hasPreset bool, slug, ref string) jsontext.Value {
	reference := slug
	if ref != "" {
		reference += "@" + ref
	}
	prompt := rawjson.Get(own, "prompt")
	out := rawjson.Without(own, func(name jsontext.Value) bool {
		text, _ := rawjson.Text(name)
		return slices.Contains([]string{"preset", "prompt", "prompt_id", "prompt_version", "session_id"}, text)
	})
	if variables := rawjson.Get(prompt, "variables"); variables != nil {
		out = rawjson.With(out, "prompt", rawjson.ObjectOf(rawjson.NewMember("variables", variables)))
	} else if prompt.Kind() == '"' { // of another API
		out = rawjson.With(out, "prompt", prompt)
	}
	model, _ := rawjson.Text(rawjson.Get(own, "model"))
	switch before, _, isReference := strings.Cut(model, domain.ReferenceMark); {
	case isReference:
		return rawjson.With(out, "model", rawjson.Quote(before+domain.ReferenceMark+reference))
	case hasPreset && model != "":
		return rawjson.With(out, "preset", rawjson.Quote(reference))
	}
	return rawjson.With(out, "model", rawjson.Quote(domain.ReferenceMark+reference))
}

// answered is the answer that a line has.
func (l loggedLine) answered() replayed {
	r := replayed{Preset: l.Preset, Model: l.Model, Milliseconds: l.DurationMS, Answer: l.Answer}
	if l.Tokens != nil {
		r.Usage = &trialUsage{l.Tokens.Input, l.Tokens.Output, l.Cost}
	}
	return r
}

// sendAgain sends a request, and reads the answer.
func (a api) sendAgain(ctx context.Context, dialect domain.Dialect, request jsontext.Value) (r replayed, err error) {
	begin := time.Now()
	response, err := a.Send(ctx, client.Request{Method: http.MethodPost, Path: "/" + string(dialect), Body: request})
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	r.Preset = response.Header.Get("X-Preset")
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return r, a.gatewayError(response)
	}
	usage := answer.New(dialect, response.Header.Get("Content-Type"), "")
	content := transcript.New(dialect, usage.Streamed(), nil)
	usage.Tee(content.Write)
	_, err = io.Copy(usageWriter{usage}, response.Body)
	seen := usage.Close(err == nil)
	r.Model, r.Milliseconds, r.Answer = seen.Model, time.Since(begin).Milliseconds(), content.Close().Messages
	if seen.Unknown == "" {
		r.Usage = &trialUsage{seen.Tokens.Input, seen.Tokens.Output, cmp.Or(seen.Cost, answer.CostOf(response.Header))}
	}
	if err == nil && seen.Failed {
		err = errors.New("the gateway reports an error")
	}
	return r, err
}

// print prints both answers side by side.
func (r replay) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", terminal.Escape(r.Begun), terminal.Escape(r.RequestID))
	left, right := r.Before.column(), r.After.column()
	for i := range max(len(left), len(right)) {
		cells := [2]string{}
		for j, column := range [][]string{left, right} {
			if i < len(column) {
				cells[j] = column[i]
			}
		}
		pad := strings.Repeat(" ", max(columnWidth-utf8.RuneCountInString(cells[0]), 0))
		fmt.Fprintln(w, strings.TrimRight(cells[0]+pad+" | "+cells[1], " "))
	}
	fmt.Fprintln(w)
}

// column returns an answer and its facts as lines of columnWidth.
func (r replayed) column() []string {
	facts := answerFacts(r.Preset, r.Model, r.Usage)
	lines := []string{strings.Join(append(facts, seconds(r.Milliseconds)), "; "), strings.Repeat("-", columnWidth)}
	for _, m := range r.Answer {
		for _, p := range m.Parts {
			switch {
			case p.Type == "reasoning": // long, and no part of the answer
			case p.Name != "":
				lines = append(lines, p.Name+" "+string(p.Arguments))
			default:
				lines = append(lines, p.Content)
			}
		}
	}
	if r.Error != "" {
		lines = append(lines, r.Error)
	}
	return wrap(terminal.EscapeText(strings.Join(lines, "\n")), columnWidth)
}

// wrap returns text as lines of at most width characters. It breaks lines at spaces where it can.
func wrap(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\t", "    "), "\n") {
		rest := []rune(line)
		for len(rest) > width {
			end := width
			for i := width; i > 0; i-- {
				if rest[i] == ' ' {
					end = i
					break
				}
			}
			lines = append(lines, string(rest[:end]))
			rest = []rune(strings.TrimPrefix(string(rest[end:]), " "))
		}
		lines = append(lines, string(rest))
	}
	return lines
}
