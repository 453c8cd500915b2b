package caddymodule

import (
	"net/http"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// dryRunHeader asks for what would go upstream, without sending it.
const dryRunHeader = "X-Preset-Dry-Run"

func (c *inferenceCall) wantsDryRun() error {
	values := c.r.Header.Values(dryRunHeader)
	switch {
	case len(values) == 0, len(values) == 1 && strings.EqualFold(values[0], "false"):
	case len(values) == 1 && strings.EqualFold(values[0], "true"):
		c.dryRun = true
	default: // what was meant may not cost money
		return domain.InvalidAt("x-preset-dry-run", "must be true or false")
	}
	return nil
}

// dryRun is what would have gone upstream.
type dryRun struct {
	Method string `json:"method"`
	// Path is the path with the query.
	Path    string                 `json:"path"`
	Body    string                 `json:"body"`
	Fields  map[string]dryRunField `json:"fields"`
	Dropped []string               `json:"dropped"`
}

// dryRunField tells where a top-level field of the body comes from. Preset and
// version are null unless it comes from a preset.
type dryRunField struct {
	From    domain.Source `json:"from"`
	Preset  *string       `json:"preset"`
	Version *int          `json:"version"`
}

// describe answers a dry run.
func (c *inferenceCall) describe(resolution domain.Resolution) (answer, error) {
	if !utf8.Valid(resolution.Body) {
		return answer{}, domain.InvalidAt("", "is not UTF-8, which an answer in JSON cannot hold")
	}
	out := dryRun{
		Method: c.r.Method, Path: c.r.URL.RequestURI(), Body: string(resolution.Body),
		Fields: make(map[string]dryRunField), Dropped: append([]string{}, resolution.Dropped...),
	}
	for _, field := range resolution.Fields() {
		origin := dryRunField{From: field.From}
		if field.From == domain.FromPreset {
			origin.Preset, origin.Version = &resolution.Preset, &resolution.Version
		}
		out.Fields[field.Name] = origin
	}
	data, err := jsonv2.Marshal(out, jsonv2.Deterministic(true))
	return object(http.StatusOK, data, ""), err // it is no state of anything, so it has no tag
}
