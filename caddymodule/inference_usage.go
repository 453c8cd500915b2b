package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/iolog"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagetap"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Usage measures what inference requests use: tokens, cost and time. It reads the answers of
// POSTs to /chat/completions, /responses, /messages, /images/generations and /images while they pass. Clients get every byte,
// in the same writes and at the same time. With StreamUsage "add" they do not get the added
// chunk, and other bytes may wait for it. Metrics, placeholders and the span of the tracing
// handler tell the result.
type Usage struct {
	// The prices of models' tokens. A price is for answers whose gateway does not say their
	// cost.
	Prices []Price `json:"prices,omitempty"`

	// Whether the gateway is asked for the usage of streams of /chat/completions that name a
	// preset. "add" adds the field stream_options.include_usage to requests that say nothing
	// of it. Their clients do not get the chunk with the usage. "off" leaves them alone, since
	// some gateways refuse the field. Default: off
	StreamUsage string `json:"stream_usage,omitempty"`

	// How long sums of hours are kept. Default: 840h (35 days)
	KeepHours caddy.Duration `json:"keep_hours,omitempty"`

	// How long sums of days are kept. Default: 9600h (400 days)
	KeepDays caddy.Duration `json:"keep_days,omitempty"`

	prices    usage.Prices
	recording *usagerecorder.Use
}

const (
	defaultKeepHours = caddy.Duration(35 * 24 * time.Hour)
	defaultKeepDays  = caddy.Duration(400 * 24 * time.Hour)
)

// Price is the price of a million tokens of some models. The prices are decimal numbers,
// such as "0.25".
type Price struct {
	// The name of a model, or a pattern in which * stands for any characters but a colon or comma.
	// The most specific pattern counts.
	Model string `json:"model"`

	// The price of input tokens.
	Input string `json:"input"`

	// The price of output tokens, with those of reasoning.
	Output string `json:"output"`

	// The price of input tokens that were read from a cache. Default: input
	CacheRead string `json:"cache_read,omitempty"`

	// The price of input tokens that were written to a cache. Default: input
	CacheWrite string `json:"cache_write,omitempty"`
}

// provision sets defaults and reads the prices.
func (u *Usage) provision() (err error) {
	u.KeepHours, u.KeepDays = cmp.Or(u.KeepHours, defaultKeepHours), cmp.Or(u.KeepDays, defaultKeepDays)
	if u.KeepHours < caddy.Duration(time.Hour) || u.KeepDays < caddy.Duration(24*time.Hour) {
		return fmt.Errorf("keep: must be at least an hour for hours and a day for days, got %v and %v", time.Duration(u.KeepHours), time.Duration(u.KeepDays))
	}
	if err := u.choice().Provision(); err != nil {
		return err
	}
	list := make([]usage.Price, len(u.Prices))
	for i, price := range u.Prices {
		list[i] = usage.Price(price)
	}
	u.prices, err = usage.NewPrices(list)
	return err
}

// choice is the setting StreamUsage.
func (u *Usage) choice() directive.Choice {
	return directive.Choice{Name: "stream_usage", Value: &u.StreamUsage, Words: []string{streamUsageOff, streamUsageAdd}}
}

const (
	streamUsageOff = "off"
	streamUsageAdd = "add"
)

// readUsage reads the usage subdirective.
func (i *Inference) readUsage(d *caddyfile.Dispenser, place string) error {
	if d.NextArg() {
		return d.Errf("%s takes a block and no arguments, got %q", place, d.Val())
	}
	i.Usage = new(Usage)
	block := directive.Block{Place: place + ": ", Repeated: []string{"price"}, Nested: []string{"price"}}
	return block.Read(d, i.Usage.subdirectives())
}

// subdirectives are those of usage.
func (u *Usage) subdirectives() map[string]directive.Reader {
	return map[string]directive.Reader{"keep": u.readKeep, "price": u.readPrice, "stream_usage": u.choice().Read}
}

func (u *Usage) readKeep(d *caddyfile.Dispenser, place string) error {
	ages := d.RemainingArgs()
	if len(ages) != 2 {
		return d.Errf("%s takes the age of hours and the age of days, got %d arguments", place, len(ages))
	}
	for i, into := range []*caddy.Duration{&u.KeepHours, &u.KeepDays} {
		age, err := caddy.ParseDuration(ages[i])
		if err != nil || age <= 0 {
			return d.Errf("%s: must be durations such as 35d, got %q", place, ages[i])
		}
		*into = caddy.Duration(age)
	}
	return nil
}

func (u *Usage) readPrice(d *caddyfile.Dispenser, place string) error {
	model, err := directive.OnlyArg(d, place, "a model")
	if err != nil {
		return err
	}
	price := Price{Model: model}
	err = directive.Block{Place: place + " " + model + ": "}.Read(d, map[string]directive.Reader{
		"input": directive.Text(&price.Input, "a price"), "output": directive.Text(&price.Output, "a price"),
		"cache_read": directive.Text(&price.CacheRead, "a price"), "cache_write": directive.Text(&price.CacheWrite, "a price"),
	})
	u.Prices = append(u.Prices, price)
	return err
}

// serveMeasured lets the gateway answer, and measures the answer.
func (c *inferenceCall) serveMeasured(next caddyhttp.Handler) (err error) {
	home := c.named.workspace
	if home == "" { // asked now, since the client waits for the end of tell
		home = c.home()
	}
	begun, ended := time.Now(), false
	t := usagetap.New(c.w, c.route.dialect, c.hidesUsage, c.measured != nil, func(status int) { c.showHandle(status, begun) })
	if c.logged != nil {
		t.Content(c.logged.Answer(c.route.dialect))
	}
	defer func() { // reverse_proxy panics where an answer breaks off
		used := t.Close(begun, ended && err == nil, c.r.Context().Err() != nil)
		c.attribute(used)
		used.Asked = c.asked
		if used.Status == 0 && !used.Aborted {
			used.Status = refusedStatus(err)
		}
		c.recordUsage(used, home)
		c.logged.End(trace.SpanFromContext(c.r.Context()), used)
	}()
	err = next.ServeHTTP(t, c.r)
	if ended = true; t.Status() == 0 {
		c.showHandle(refusedStatus(err), begun) // Caddy writes the header
	}
	return err
}

// attribute sets the workspace, preset, version, label and key of a request.
func (c *inferenceCall) attribute(used *usage.Request) {
	used.WorkspaceID, used.PresetID, used.Label = c.named.workspace, c.named.id, c.named.label
	used.Preset, used.Version = c.named.preset, c.named.version
	used.KeyID = c.who.KeyID
	if used.PresetID == "" { // of a new preset that is tried
		used.Preset = ""
	}
}

// refusedStatus returns the status of an error that Caddy answers, 0 if it has none.
func refusedStatus(err error) int {
	refused, _ := errors.AsType[caddyhttp.HandlerError](err)
	return refused.StatusCode
}

// recordUsage shows what a request used in metrics, in placeholders and in the span of the
// request. It is summed in the workspace home for the reports, unless that is empty.
func (c *inferenceCall) recordUsage(used *usage.Request, home string) {
	c.used = used
	if c.h.Inference.Usage == nil { // the limits alone need it
		used.WorkspaceID = home
		return
	}
	c.estimate(used)
	c.h.metrics.Usage.Add(used)
	if used.WorkspaceID = home; home != "" {
		c.h.shared.usage.Add(c.h.Inference.Usage.recording, used)
		c.rememberSession(used)
	}
	if c.repl != nil {
		c.repl.Set(usagePlaceholder, used)
	}
	if span := trace.SpanFromContext(c.r.Context()); span.IsRecording() {
		span.SetAttributes(usagetap.AttributesOf(used)...)
	}
}

// home returns the workspace of the request's key, which is that of a request without a preset.
// It is empty if the store cannot tell that.
func (c *inferenceCall) home() string {
	id, err := c.h.Inference.resolver.WorkspaceID(c.r.Context(), c.who)
	if err != nil {
		return ""
	}
	return id
}

// estimate adds the cost of an answer whose gateway did not say it.
func (c *inferenceCall) estimate(used *usage.Request) {
	if used.HasCost || used.Unknown != "" || used.Tokens == (gatewayanswer.Tokens{}) {
		return
	}
	used.Cost, used.HasCost = c.h.Inference.Usage.prices.Estimate(cmp.Or(used.Model, used.Asked), used.Tokens)
	used.Estimated = used.HasCost
}

// addsStreamUsage reports whether chat streams are asked for their usage.
func (u *Usage) addsStreamUsage() bool { return u != nil && u.StreamUsage == streamUsageAdd }

// hideStreamUsage prepares to take the usage out of the stream, which its client did not ask
// for. An encoded stream is not searched, so the gateway is asked for a plain one.
func (c *inferenceCall) hideStreamUsage() {
	c.hidesUsage = true
	c.r.Header.Set("Accept-Encoding", "identity")
}

// requestIDHeader has the handle of a request with a preset, for feedback.
const requestIDHeader = "X-Preset-Request-Id"

// showHandle sets the header by which the request can get feedback. It is called before the
// answer's header is written. If the request names a preset, the gateway's header of this name
// does not pass.
func (c *inferenceCall) showHandle(status int, begun time.Time) {
	if c.named.preset == "" || c.h.Inference.Usage == nil {
		return
	}
	header := c.w.Header()
	handles := c.h.shared.usage.Handles.Load()
	if handles == nil || c.trial != nil { // whose version nobody can name
		header.Del(requestIDHeader)
		return
	}
	c.requested = usage.NewRequestID()
	used := usage.Request{Status: status, Start: begun}
	c.attribute(&used) // the model that answers is not known yet
	c.values[2] = handles.New(usage.Answered{ID: c.requested, Key: used.Key(), Start: begun})
	header[requestIDHeader] = c.values[2:]
}

// rememberSession remembers a request with a preset and a session, for feedback.
func (c *inferenceCall) rememberSession(used *usage.Request) {
	if c.named.id == "" || c.session == "" || c.trial != nil {
		return
	}
	if c.requested == (usage.RequestID{}) {
		c.requested = usage.NewRequestID()
	}
	c.h.shared.usage.Sessions.Add(c.session, usage.Answered{ID: c.requested, Key: used.Key(), Start: used.Start})
}

// logRequest keeps the content of a request, if its workspace logs or broadcasts it. text is what was sent.
func (c *inferenceCall) logRequest(text []byte, resolution inference.Resolution) {
	c.logged = c.h.content.Begin(c.r, c.header, iolog.Request{
		Who: c.who, Session: c.session, ID: c.requestID, IsMuted: c.dryRun || c.route.counts, AsksNot: c.asksNoLog, Memory: c.held.Limit,
		Resolver: c.h.Inference.resolver, Service: c.h.service,
	})
	if resolution.Rewritten {
		c.logged.AddSent(text)
	}
	c.logged.AddRequest(resolution.Body)
}
