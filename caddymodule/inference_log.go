package caddymodule

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/iolog"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// noLogHeader asks that the content of a request is not logged.
const noLogHeader = "X-Preset-No-Log"

func (i *Inference) readIOLog(d *caddyfile.Dispenser, place string) error {
	if d.NextArg() {
		return d.Errf("%s takes no arguments, got %q", place, d.Val())
	}
	i.IOLog = true
	return nil
}

func (h *Handler) provisionIOLog(ctx caddy.Context) (err error) {
	if h.Inference == nil || !h.Inference.IOLog {
		return nil
	}
	if h.Inference.log, err = iolog.New(ctx, h.logger); err != nil {
		return fmt.Errorf("inference: io_log: %w", err)
	}
	return nil
}

// logRequest keeps the content of a request, if its workspace logs it. text is what the client sent.
func (c *inferenceCall) logRequest(text []byte, resolution inference.Resolution) {
	i := c.h.Inference
	if i.log == nil || c.dryRun || c.route.counts {
		return
	}
	asksNotTo := strings.EqualFold(c.r.Header.Get(noLogHeader), "true")
	c.r.Header.Del(noLogHeader) // which is ours
	logging, err := i.resolver.Logging(c.r.Context(), c.who)
	if err != nil || logging == nil || asksNotTo && c.who.MaySkipLogging() || !logging.Takes(c.who, c.session) {
		return
	}
	if asksNotTo {
		c.w.Header().Set("X-Preset-Ignored", noLogHeader)
	}
	c.logged = iolog.NewEntry(i.MaxMemory)
	c.logged.KeyName, c.logged.RequestID = c.h.service.KeyName(c.r.Context(), c.who), c.requestID()
	if resolution.Rewritten {
		c.logged.AddSent(text)
	}
	c.logged.AddRequest(resolution.Body)
}

// logAnswer writes the content of a request whose answer has ended.
func (c *inferenceCall) logAnswer(used *usage.Request) {
	if c.logged != nil {
		c.h.Inference.log.Write(c.logged, used)
		c.logged = nil
	}
}
