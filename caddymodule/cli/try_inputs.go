package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
)

const (
	// triedAtOnce is how many requests --inputs sends at a time.
	triedAtOnce = 4
	// maxCell bounds the text of an answer in a table, in characters.
	maxCell = 80
)

// gridRow has the answers to one input, one for each version.
type gridRow struct {
	Input   string     `json:"input"`
	Answers []gridCell `json:"answers"`
}

type gridCell struct {
	Version string `json:"version"` // as --version names it, empty for the designated one
	*trialReport
	Error *string `json:"error"` // null for a success
}

// runInputs sends all saved inputs of a preset to some versions, and prints the answers. It fails if a request fails.
func (t *trial) runInputs(cmd *cobra.Command, a api, slug string) error {
	p, _, err := a.preset(cmd.Context(), slug)
	if err != nil {
		return err
	}
	versions := t.versions
	if len(versions) == 0 {
		versions = []string{""}
	}
	for _, ref := range versions {
		if _, err := a.triedVersion(cmd.Context(), p, ref); err != nil {
			return err
		}
	}
	rows := []gridRow{}
	failed := 0
	var group errgroup.Group
	group.SetLimit(triedAtOnce)
	for text, err := range a.Elements(cmd.Context(), client.PresetPath(slug, "inputs"), a.query()) {
		if err != nil {
			return explain(err, a.place)
		}
		in, err := inputs.ReadContent(text)
		if err != nil || !in.Dialect.Valid() {
			return errors.Join(fmt.Errorf("an input of preset %s has a form that this program does not know", slug), err)
		}
		row := gridRow{in.Name, make([]gridCell, len(versions))}
		rows = append(rows, row)
		for i, ref := range versions {
			r, err := inputRequest(slug, ref, in)
			if err != nil {
				return err
			}
			group.Go(func() error {
				cell := gridCell{Version: ref}
				report, err := a.sendTrial(cmd.Context(), in.Dialect, r, &output{keep: true, tools: []string{}})
				if cell.trialReport = report; err != nil {
					cell.Error = new(a.WithoutKey(err.Error()))
				}
				row.Answers[i] = cell
				return nil
			})
		}
	}
	_ = group.Wait() // no function fails
	for _, row := range rows {
		for _, cell := range row.Answers {
			if cell.Error != nil {
				failed++
			}
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("preset %s has no saved inputs", slug)
	}
	var printed error
	if t.asJSON {
		text, err := json.Marshal(rows)
		printed = cmp.Or(err, printJSON(cmd, &client.Response{Data: text}))
	} else {
		_, printed = fmt.Fprint(cmd.OutOrStdout(), gridText(rows))
	}
	if printed == nil && failed > 0 {
		printed = fmt.Errorf("%d of %d requests failed", failed, len(rows)*len(versions))
	}
	return printed
}

// inputRequest returns a streamed request of a saved input for the version that ref names.
func inputRequest(slug, ref string, in inputs.Content) (client.Request, error) {
	reference := domain.ReferenceMark + slug
	if ref != "" {
		reference += "@" + ref
	}
	request := map[string]any{"model": reference, "stream": true}
	for name, value := range map[string][]byte{"messages": in.Messages, "input": in.Input} {
		if value != nil {
			request[name] = json.RawMessage(value)
		}
	}
	if in.Variables != nil {
		request["prompt"] = map[string]any{"variables": json.RawMessage(in.Variables)}
	}
	if in.Dialect == domain.Chat {
		request["stream_options"] = map[string]bool{"include_usage": true}
	}
	body, err := encode(request, "")
	return client.Request{Method: http.MethodPost, Path: "/" + string(in.Dialect), Body: body}, err
}

func gridText(rows []gridRow) string {
	var text strings.Builder
	table := terminal.NewTable(&text)
	table.Row("INPUT", "VERSION", "TIME", "TOKENS", "COST", "ANSWER")
	for _, row := range rows {
		for _, cell := range row.Answers {
			time, tokens, cost, answer := "", "", "", ""
			if r := cell.trialReport; r != nil {
				time, answer = seconds(r.Milliseconds), r.Text
				if r.Usage != nil {
					tokens, cost = fmt.Sprintf("%d+%d", r.Usage.InputTokens, r.Usage.OutputTokens), r.Usage.Cost
				}
			}
			if cell.Error != nil {
				answer = "Error: " + *cell.Error
			}
			if shown := []rune(strings.Join(strings.Fields(answer), " ")); len(shown) > maxCell {
				answer = string(shown[:maxCell]) + "…"
			} else {
				answer = string(shown)
			}
			table.Row(row.Input, cmp.Or(cell.Version, "live"), time, tokens, cost, answer)
		}
	}
	_ = table.Flush() // into memory
	return text.String()
}
