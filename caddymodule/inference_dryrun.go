package caddymodule

import (
	"net/http"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// dryRunHeader asks for what would go upstream, without sending it.
const dryRunHeader = "X-Preset-Dry-Run"

func (c *inferenceCall) readDryRun() error {
	values := c.r.Header.Values(dryRunHeader)
	switch {
	case len(values) == 0, len(values) == 1 && strings.EqualFold(values[0], "false"):
	case len(values) == 1 && strings.EqualFold(values[0], "true"):
		c.dryRun = true
	default: // a misspelt dry run must not cost money
		return domain.InvalidAt("x-preset-dry-run", "must be true or false")
	}
	return nil
}

// describe answers a dry run with a client.DryRun.
func (c *inferenceCall) describe(resolution inference.Resolution) (response, error) {
	text, err := c.held.Join()
	if err != nil {
		return response{}, err
	}
	if !utf8.Valid(text) {
		return response{}, domain.InvalidAt("", "is not UTF-8, which an answer in JSON cannot hold")
	}
	resolution.Body = draft.Body{text}
	fields, err := resolution.Fields()
	if err != nil {
		return response{}, err
	}
	origins := client.DryRunOrigins{
		Fields:  make(map[string]client.DryRunField, len(fields)),
		Dropped: append([]string{}, resolution.Dropped...), Enforced: append([]string{}, resolution.Enforced...),
	}
	for _, field := range fields {
		origin := client.DryRunField{From: string(field.From)}
		if field.From == draft.FromPreset || field.From == draft.FromVariable {
			origin.Preset, origin.Version = &resolution.Preset, &resolution.Version
		}
		origins.Fields[field.Name] = origin
	}
	before, err := jsonv2.Marshal(client.DryRunTarget{Method: c.r.Method, Path: c.r.URL.RequestURI()})
	if err != nil {
		return response{}, err
	}
	after, err := jsonv2.Marshal(origins, jsonv2.Deterministic(true))
	if err != nil {
		return response{}, err
	}
	// The body may be large, so it is quoted once, into the buffer that is sent.
	const begin, body, end = `{"data":`, `,"body":`, `}`
	data, err := c.held.Alloc(int64(len(begin) + len(before) + len(body) + rawjson.QuotedSize(text) + len(after) + len(end)))
	if err != nil {
		return response{}, err
	}
	data = append(append(append(data, begin...), before[:len(before)-1]...), body...)
	if data, err = jsontext.AppendQuote(data, text); err != nil {
		return response{}, err
	}
	data = append(append(append(data, ','), after[1:]...), end...)
	return response{status: http.StatusOK, body: data}, nil // without an ETag: it is no stored object
}
