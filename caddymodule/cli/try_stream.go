package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/sse"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

const (
	// maxEvent bounds the data of an event. The last event of responses repeats the answer.
	maxEvent = 16 << 20
	// maxWhole bounds an answer that is no stream, and the text of a stream as JSON.
	maxWhole = 16 << 20
	// maxShownError bounds an error of the gateway that has no known form.
	maxShownError = 1 << 10
)

// errTooLong is the error of an answer with more text than maxWhole.
var errTooLong = fmt.Errorf("the answer has more than %d bytes", maxWhole)

// errCut is the error of a stream that ends before the event that ends an answer.
var errCut = errors.New("the answer ended before it was complete")

// stream sends a request, and prints the text of the answer as it comes.
func (t *trial) stream(cmd *cobra.Command, a api, dialect domain.Dialect, r client.Request) error {
	report, err := a.sendTrial(cmd.Context(), dialect, r, &output{w: cmd.OutOrStdout(), keep: t.asJSON, tools: []string{}})
	if report == nil {
		return err
	}
	if !t.asJSON {
		report.print(cmd.ErrOrStderr())
		return err
	}
	if err != nil && report.Text == "" && len(report.ToolCalls) == 0 {
		return err
	}
	text, failed := json.Marshal(report)
	if failed == nil {
		failed = printJSON(cmd, &client.Response{Data: text})
	}
	return cmp.Or(err, failed)
}

// sendTrial sends a request, and writes the text of the answer to out as it comes. The report is nil
// if there is no answer. With an error it reports a part.
func (a api) sendTrial(ctx context.Context, dialect domain.Dialect, r client.Request, out *output) (*trialReport, error) {
	begin := time.Now()
	response, err := a.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, a.gatewayError(response)
	}
	usage := answer.New(dialect, response.Header.Get("Content-Type"), "")
	body := io.TeeReader(response.Body, usageWriter{usage})
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		err = out.stream(body)
	} else {
		err = out.whole(body)
	}
	out.end()
	seen := usage.Close(err == nil)
	report := trialReport{
		Preset: response.Header.Get("X-Preset"), Model: seen.Model, Text: out.text.String(), ToolCalls: out.tools,
		Milliseconds: time.Since(begin).Milliseconds(),
		Enforced:     names(response.Header.Get("X-Preset-Enforced")), Dropped: names(response.Header.Get("X-Preset-Dropped")),
	}
	if !out.first.IsZero() {
		report.FirstTextMilliseconds = new(out.first.Sub(begin).Milliseconds())
	}
	if seen.Unknown == "" && err == nil {
		report.Usage = &trialUsage{seen.Tokens.Input, seen.Tokens.Output, cmp.Or(seen.Cost, answer.CostOf(response.Header))}
	}
	return &report, cmp.Or(err, out.err)
}

// trialReport is what --json prints of an answer.
type trialReport struct {
	// Preset is the preset and the version that served, such as email-copywriter@3.
	Preset    string   `json:"preset"`
	Model     string   `json:"model"` // empty if the answer does not say
	Text      string   `json:"text"`
	ToolCalls []string `json:"tool_calls"` // the names of the tools
	// Usage is null if the answer does not say.
	Usage                 *trialUsage `json:"usage"`
	FirstTextMilliseconds *int64      `json:"first_text_milliseconds"` // null without a text
	Milliseconds          int64       `json:"milliseconds"`
	Enforced              []string    `json:"enforced"`
	Dropped               []string    `json:"dropped"`
}

type trialUsage struct {
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Cost         string `json:"cost,omitempty"` // as the gateway writes it
}

// answerFacts returns what to say of an answer besides its text. used is nil if the answer does not say.
func answerFacts(preset, model string, used *trialUsage) []string {
	facts := []string{cmp.Or(preset, "no preset")}
	if model != "" {
		facts = append(facts, model)
	}
	if used != nil {
		facts = append(facts, fmt.Sprintf("%d tokens in, %d out", used.InputTokens, used.OutputTokens))
		if used.Cost != "" {
			facts = append(facts, "cost "+used.Cost)
		}
	}
	return facts
}

func (r trialReport) print(w io.Writer) {
	facts := answerFacts(r.Preset, r.Model, r.Usage)
	if r.FirstTextMilliseconds != nil {
		facts = append(facts, "first text after "+seconds(*r.FirstTextMilliseconds))
	}
	fmt.Fprintln(w, terminal.Escape(strings.Join(append(facts, seconds(r.Milliseconds)+" in all"), "; ")))
	printNames(w, "The model calls the tools", r.ToolCalls)
	printNames(w, "Changed by the policy of the preset", r.Enforced)
	printNames(w, "Left out, because this API does not have them", r.Dropped)
}

func seconds(milliseconds int64) string { return fmt.Sprintf("%.2f s", float64(milliseconds)/1000) }

func names(header string) []string {
	return strings.FieldsFunc(header, func(r rune) bool { return r == ',' || r == ' ' })
}

// usageWriter lets a reader of the usage see the bytes of an answer.
type usageWriter struct{ *answer.Reader }

func (w usageWriter) Write(p []byte) (int, error) {
	w.Reader.Write(p, time.Now())
	return len(p), nil
}

type output struct {
	w    io.Writer
	keep bool // in text, instead of printing it
	text strings.Builder

	first      time.Time // of the text
	isComplete bool
	endsLine   bool
	tools      []string
	err        error // of w, or errTooLong
}

func (o *output) add(text string) {
	if text == "" {
		return
	}
	if o.first.IsZero() {
		o.first = time.Now()
	}
	if o.keep {
		if o.text.Len()+len(text) > maxWhole {
			o.err = errTooLong
			return
		}
		o.text.WriteString(text)
		return
	}
	o.endsLine = strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(o.w, terminal.EscapeText(text)); err != nil && o.err == nil {
		o.err = err
	}
}

func (o *output) end() {
	if !o.first.IsZero() && !o.keep && !o.endsLine {
		fmt.Fprintln(o.w)
	}
}

// streamEvent has the members of events in all three dialects that matter here.
type streamEvent struct {
	Type  string          `json:"type"`
	Error json.RawMessage `json:"error"`
	// Message is the error of responses, and an object in messages.
	Message json.RawMessage `json:"message"`
	Choices []struct {
		Delta struct {
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				Function struct{ Name string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Delta        json.RawMessage `json:"delta"`
	ContentBlock struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"content_block"`
	Item struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"item"`
	Response struct {
		Error json.RawMessage `json:"error"`
	} `json:"response"`
}

func (o *output) stream(body io.Reader) error {
	for data, err := range sse.Events(body, maxEvent) {
		if err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		if err := o.event(data); err != nil {
			return err
		}
	}
	if !o.isComplete {
		return errCut
	}
	return nil
}

// event prints the text of an event. An event that says that the answer failed is an error,
// and so is text that cannot be printed. Unknown events have no text.
func (o *output) event(data []byte) error {
	if string(data) == "[DONE]" {
		o.isComplete = true
		return nil
	}
	var e streamEvent
	if json.Unmarshal(data, &e) != nil {
		return nil //nolint:nilerror // a comment or an event of another form
	}
	if isSet(e.Error) || e.Type == "error" || e.Type == "response.failed" {
		return fmt.Errorf("the gateway reports an error: %s", messageOf(e.Error, e.Response.Error, e.Message))
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "message_stop":
		o.isComplete = true
	case "response.output_text.delta":
		o.add(stringIn(e.Delta))
	case "response.output_item.added":
		if strings.HasSuffix(e.Item.Type, "_call") {
			o.addTool(cmp.Or(e.Item.Name, e.Item.Type))
		}
	case "content_block_start":
		if strings.HasSuffix(e.ContentBlock.Type, "tool_use") {
			o.addTool(e.ContentBlock.Name)
		}
	case "content_block_delta":
		var delta struct{ Text string }
		_ = json.Unmarshal(e.Delta, &delta) // another form has no text
		o.add(delta.Text)
	}
	for _, choice := range e.Choices {
		o.add(stringIn(choice.Delta.Content))
		for _, call := range choice.Delta.ToolCalls {
			o.addTool(call.Function.Name)
		}
		o.isComplete = o.isComplete || choice.FinishReason != nil
	}
	return o.err
}

func (o *output) addTool(name string) {
	const most = 64
	if name != "" && len(o.tools) < most && !slices.Contains(o.tools, name) {
		o.tools = append(o.tools, name)
	}
}

// whole prints an answer that is no stream, although the request asks for one.
func (o *output) whole(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, maxWhole+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxWhole:
		return errTooLong
	}
	o.add(string(text))
	return nil
}

// gatewayError returns the error of an answer that is no success. It may be the server's or
// the gateway's.
func (a api) gatewayError(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil && len(text) == 0 {
		return fmt.Errorf("the answer is %s, and reading it failed: %w", response.Status, err)
	}
	var known struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	_ = json.Unmarshal(text, &known) // else it is shown as it is
	message := messageOf(known.Error, known.Message, known.Detail)
	if message == "" {
		message = strings.ToValidUTF8(strings.TrimSpace(string(text[:min(len(text), maxShownError)])), "")
	}
	message = a.WithoutKey(message)
	if message == "" || response.Header.Get("X-Preset") != "" { // the request went to the gateway
		return errors.New(strings.TrimSuffix("the gateway answered "+response.Status+": "+message, ": "))
	}
	return &client.Error{Status: response.StatusCode, Message: message, RequestID: response.Header.Get("X-Request-Id")}
}

// messageOf returns the first text among values that are strings, or objects with a message.
func messageOf(values ...json.RawMessage) string {
	for _, value := range values {
		var object struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(value, &object) // another form has no message
		if text := cmp.Or(stringIn(value), object.Message); text != "" {
			return text
		}
	}
	return ""
}

// stringIn returns a JSON string, empty for another value.
func stringIn(value json.RawMessage) (text string) {
	_ = json.Unmarshal(value, &text) // another form has no text
	return text
}

func isSet(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }
