package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
)

// changing implements domain.Service.Changing.
func (h *Handler) changing() func([]domain.AuditRecord) {
	end := h.shared.changes.Begin()
	return func(records []domain.AuditRecord) { end(records, h.announce) }
}

// announce tells Caddy's events app and the webhooks of a durable change. It does not wait
// for them.
func (h *Handler) announce(done domain.AuditRecord) {
	if events.Of(done) != "" {
		if !h.shared.webhooks.IsEmpty() {
			h.shared.webhooks.Push(webhook.Event{Object: done.Object.ID, Kind: events.Of(done), Number: done.Number, At: time.Now(), Body: events.JSON(done)})
		}
		h.events.Announce(done)
	}
}

func newAnnouncer(ctx caddy.Context, stopping *webhook.StopClock) (*events.Announcer, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	caddyEvents := app.(*caddyevents.App)
	if err := caddyEvents.On("stopping", stopping); err != nil {
		return nil, fmt.Errorf("subscribing to Caddy's end: %w", err)
	}
	logger := ctx.Logger()
	// Requests may outlive their configuration, and so may their events.
	ctx.Context = context.WithoutCancel(ctx.Context)
	emit := func(event string, data map[string]any) { caddyEvents.Emit(ctx, event, data) }
	return &events.Announcer{Wanted: caddyEvents.ShouldEmit, Emit: emit, Logger: logger}, nil
}

// Webhook is a receiver of events. Each event is posted as JSON, signed with HMAC-SHA256.
type Webhook struct {
	// The URL that events are posted to, with http or https. It may hold placeholders, and
	// no user and password.
	URL string `json:"url"`

	// A placeholder that gives the secret whose bytes are the key of signatures, such as
	// {env.WEBHOOK_SECRET} or {file./run/secrets/webhook}. The secret itself is refused: it
	// would be readable at /config.
	Secret string `json:"secret"`
}

// webhookLimits are those of each receiver.
var webhookLimits = webhook.Limits{
	Waiting: 10_000, Parallel: 16, Timeout: 10 * time.Second,
	First: time.Second, Longest: 5 * time.Minute, Tries: 25, Age: time.Hour,
}

// errWebhookSecret is the error for a literal secret. It does not show it.
var errWebhookSecret = errors.New("must be a placeholder, such as {env.WEBHOOK_SECRET} or {file./run/secrets/webhook}, since the configuration can be read")

// provisionWebhooks resolves the placeholders of the webhooks. Errors never show a secret.
func (h *Handler) provisionWebhooks(repl *caddy.Replacer) error {
	h.webhooks = nil
	seen := make(map[string]int)
	for i, w := range h.Webhooks {
		place := fmt.Sprintf("webhook[%d]", i)
		address, err := repl.ReplaceOrErr(w.URL, true, true)
		if err != nil {
			return fmt.Errorf("%s: url: %w", place, err) // names the placeholder
		}
		u, err := webhook.ParseURL(address)
		if err != nil {
			return fmt.Errorf("%s: url %w", place, err)
		}
		if earlier, taken := seen[address]; taken {
			return fmt.Errorf("%s: has the same url as webhook[%d]", place, earlier)
		}
		seen[address] = i
		if !ownkeys.IsPlaceholder(w.Secret) {
			return fmt.Errorf("%s: secret %w", place, errWebhookSecret)
		}
		secret, err := ownkeys.ExpandSecret(repl, w.Secret)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		h.webhooks = append(h.webhooks, &webhook.Receiver{
			URL: address, Host: u.Host, Secret: []byte(secret), Logger: h.logger,
			Requests: h.metrics.WebhookRequests, Dropped: h.metrics.WebhookDropped,
		})
	}
	return nil
}

// readWebhook reads the webhook subdirective. Its errors never show an argument, since
// any of them could be a misplaced secret.
func (h *Handler) readWebhook(d *caddyfile.Dispenser, _ string) (err error) {
	var w Webhook
	if w.URL, err = directive.OnlyArg(d, "webhook", "a URL"); err != nil {
		return err
	}
	if !strings.Contains(w.URL, "{") { // provisioning checks the value of a placeholder
		if _, err := webhook.ParseURL(w.URL); err != nil {
			return d.Errf("webhook: the URL %v", err)
		}
	}
	err = directive.Block{Place: "webhook: "}.Each(d, func(d *caddyfile.Dispenser, name string) (err error) {
		if name != "secret" {
			return d.Err("webhook: unrecognized subdirective, want secret")
		}
		if w.Secret, err = directive.OnlyArg(d, "webhook: secret", "a placeholder"); err == nil && !ownkeys.IsPlaceholder(w.Secret) {
			err = d.Errf("webhook: secret %v", errWebhookSecret)
		}
		return err
	})
	if err == nil && w.Secret == "" {
		err = d.Err("webhook wants a block with a secret")
	}
	h.Webhooks = append(h.Webhooks, w)
	return err
}

// stopWebhooks removes the handler from the users of its webhooks. At the end of the
// process it waits for their events, within the grace period. Otherwise unused webhooks get
// their waiting events in the background.
func (h *Handler) stopWebhooks() {
	if len(h.webhooks) == 0 {
		return
	}
	unused := h.shared.webhooks.Remove(h.webhooks)
	if len(unused) == 0 {
		return
	}
	limit := webhook.MaxStop
	if app, err := h.ctx.AppIfConfigured("http"); err == nil {
		limit = h.stopping.Grace(app.(*caddyhttp.App), time.Now())
	}
	var wait sync.WaitGroup
	for _, q := range unused {
		wait.Go(func() { q.Stop(limit) })
	}
	if caddy.Exiting() {
		wait.Wait()
	}
}
