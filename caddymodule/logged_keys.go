package caddymodule

import (
	"bytes"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// warnOfLoggedKeys warns of logs that would show X-Api-Key, in which Anthropic's
// clients send their key. Caddy hides Authorization by itself, but no other
// header, and takes its copy of the request before any handler sees it: no handler
// can keep a key out of the access log, nor out of the error log, where requests
// that the gateway did not answer are.
func (h *Handler) warnOfLoggedKeys(ctx caddy.Context) {
	if h.Inference == nil || h.Inference.Keys == keysOff {
		return
	}
	var shown []string
	for _, name := range requestLogs(ctx) {
		probe := new(keyProbe)
		ctx.Logger(logName(name)).With(zap.Inline(probe)) // which encodes, and writes nothing
		if probe.shown {
			shown = append(shown, name)
		}
	}
	if shown != nil {
		h.logger.Warn("the log shows the keys that clients send in X-Api-Key: let its format be a filter that deletes request>headers>X-Api-Key", zap.Strings("loggers", shown))
	}
}

// requestLogs returns the names of the loggers to which the server of a handler
// that is provisioned writes requests.
func requestLogs(ctx caddy.Context) []string {
	names := map[string]bool{"http.log.error": true}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server.Logs != nil {
		add := func(name string) {
			for _, log := range [...]string{"http.log.access", "http.log.error"} {
				if name != "" {
					log += "." + name
				}
				names[log] = true
			}
		}
		add(server.Logs.DefaultLoggerName)
		for _, of := range server.Logs.LoggerNames {
			for _, name := range of {
				add(name)
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// logName stands for the module whose logger has a name.
type logName string

// CaddyModule returns the module information that the name of the logger is.
func (n logName) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(n), New: func() caddy.Module { return n }}
}

// keyProbe, as a field of a log entry, finds out whether its encoder shows a key.
type keyProbe struct{ shown bool }

// MarshalLogObject has a request with a key encoded, aside from the entry.
func (p *keyProbe) MarshalLogObject(fields zapcore.ObjectEncoder) error {
	encoder, ok := fields.(zapcore.Encoder)
	if !ok {
		return nil // of which nothing can be told
	}
	const key = "a-key-of-nobody"
	text, err := encoder.Clone().EncodeEntry(zapcore.Entry{}, []zap.Field{zap.Object("request", caddyhttp.LoggableHTTPRequest{
		Request: &http.Request{Header: http.Header{"X-Api-Key": {key}}},
	})})
	if err != nil {
		return nil //nolint:nilerror // this is a look, and not an entry
	}
	defer text.Free()
	p.shown = p.shown || bytes.Contains(text.Bytes(), []byte(key))
	return nil
}
