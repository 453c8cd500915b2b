package sitecheck

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

// loggedHeaders are the headers in which clients of AI gateways send a key. Caddy
// hides Authorization and Cookie in its logs, unless log_credentials is on.
var loggedHeaders = [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Inference-Key", "Sec-Websocket-Protocol", "Cookie"}

// LoggedKeys returns the loggers that would show keys which are sent over HTTP/3, and in which headers.
// The guard of ownkeys, which hides keys from the logs, does not see those requests.
func LoggedKeys(ctx caddy.Context, server *caddyhttp.Server) (headers, loggers []string) {
	if !servesHTTP3(server) {
		return nil, nil
	}
	for _, name := range requestLogs(server) {
		probe := &keyProbe{credentials: server.Logs != nil && server.Logs.ShouldLogCredentials}
		ctx.Logger(logName(name)).With(zap.Inline(probe)) // With encodes and writes nothing
		headers = append(headers, probe.shown...)
		if probe.shown != nil {
			loggers = append(loggers, name)
		}
	}
	slices.Sort(headers)
	return slices.Compact(headers), loggers
}

// servesHTTP3 reports whether a server that is being provisioned may serve HTTP/3.
func servesHTTP3(server *caddyhttp.Server) bool {
	return len(server.TLSConnPolicies) > 0 &&
		(slices.Contains(server.Protocols, "h3") || slices.Contains(slices.Concat(server.ListenProtocols...), "h3"))
}

// requestLogs returns the names of the loggers to which a server writes requests.
func requestLogs(server *caddyhttp.Server) []string {
	names := map[string]bool{"http.log.error": true}
	if server.Logs != nil {
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

// logName is a module that exists only to get the logger of this name. It is not registered.
// The documentation of Caddy's portal leaves out modules whose ID is computed.
type logName string

// CaddyModule returns module information with the logger's name as its ID.
func (n logName) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(n), New: func() caddy.Module { return n }}
}

// keyProbe is a log field that finds out in which headers the log's encoder shows a key.
type keyProbe struct {
	credentials bool // whether Caddy is told to show Authorization and Cookie
	shown       []string
}

// MarshalLogObject encodes a request that has a key in each header, outside the log entry.
// It records which keys the text shows.
func (p *keyProbe) MarshalLogObject(fields zapcore.ObjectEncoder) error {
	encoder, ok := fields.(zapcore.Encoder)
	if !ok {
		return nil // an encoder of another kind cannot be tried
	}
	const key = "a-key-of-nobody-in-"
	header := make(http.Header)
	for _, name := range loggedHeaders {
		header.Set(name, key+name+".")
	}
	text, err := encoder.Clone().EncodeEntry(zapcore.Entry{}, []zap.Field{zap.Object("request", caddyhttp.LoggableHTTPRequest{
		Request: &http.Request{Header: header}, ShouldLogCredentials: p.credentials,
	})})
	if err != nil {
		return nil //nolint:nilerror // only a trial failed
	}
	defer text.Free()
	for _, name := range loggedHeaders {
		if bytes.Contains(text.Bytes(), []byte(key+name+".")) && !slices.Contains(p.shown, name) {
			p.shown = append(p.shown, name)
		}
	}
	return nil
}
