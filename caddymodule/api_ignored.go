package caddymodule

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

const (
	// maxIgnored is how many ignored names a header has, and how many unknown ones an error.
	maxIgnored = 20
	// maxIgnoredName is how many bytes of such a name it has.
	maxIgnoredName = 64
)

// knownToClients are members that official clients send. Presets do not store them, and no
// schema names them. They are not misspelt.
var knownToClients = map[string]bool{
	// OpenAI's, chat completions and responses
	"n": true, "store": true, "audio": true, "safety_identifier": true, "prompt_cache_retention": true, "function_call": true, "functions": true,
	"conversation": true, "stream_options": true, "context_management": true, "moderation": true,
	// OpenRouter's
	"transforms": true, "usage": true,
	// Anthropic's
	"container": true, "mcp_servers": true, "betas": true, "inference_geo": true,
	// LiteLLM's
	"extra_body": true,
}

// settingNames returns the members that a captured request may have, as a JSON object: for the
// last part of each dialect's route the names, with spaces between. listIgnored names others.
func settingNames(schemas *schema.Schemas) (string, error) {
	names := make(map[domain.Dialect]string)
	for dialect, s := range map[domain.Dialect]*schema.Schema{
		domain.Chat: schemas.ChatRequest, domain.Responses: schemas.ResponsesRequest, domain.Messages: schemas.MessagesRequest,
	} {
		list := slices.AppendSeq(s.MemberNames(), maps.Keys(knownToClients))
		slices.Sort(list)
		names[dialect] = strings.Join(slices.Compact(list), " ")
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// listIgnored names the unknown parameters of the query and the unknown top-level members of
// the body in a header, because they may be misspelt. Known members that are not stored, such
// as input, are not listed. It depends on the query and the body alone, so that a replay
// has the header as well.
func (c *call) listIgnored() {
	names := slices.Clone(c.given.unknown)
	for _, m := range c.members {
		if len(names) > maxIgnored {
			break
		}
		if !c.op.body.Names(m.Name) && !knownToClients[m.Name] {
			names = append(names, m.Name)
		}
	}
	if names == nil {
		return
	}
	if len(names) > maxIgnored {
		names = append(names[:maxIgnored], "...")
	}
	for i, name := range names {
		names[i] = headerName(name)
	}
	c.header.Set("X-Preset-Ignored", headerList(names))
}

// headerName returns a name that a client chose for a list in a header, or for an error. It cuts long names. It
// percent-encodes all but ASCII letters, digits and `_ . ~ - $ & + : = @`.
func headerName(name string) string {
	switch {
	case name == "":
		return `""`
	case len(name) > maxIgnoredName:
		return url.PathEscape(name[:maxIgnoredName]) + "..."
	default:
		return url.PathEscape(name)
	}
}
