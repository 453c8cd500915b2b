// Package namelist lists names in headers, such as those that a request has and nothing reads.
package namelist

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
	// Max is how many ignored names a header has, and how many unknown ones an error.
	Max = 20
	// maxName is how many bytes of such a name it has.
	maxName = 64
)

// clients are members that official clients send. Presets do not store them, and no
// schema names them. They are not misspelt.
var clients = map[string]bool{
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

// SettingNames returns the members that a captured request may have, as a JSON object: for the
// last part of each dialect's route the names, with spaces between. X-Preset-Ignored names others.
func SettingNames(schemas *schema.Schemas) (string, error) {
	names := make(map[domain.Dialect]string)
	for dialect, s := range map[domain.Dialect]*schema.Schema{
		domain.Chat: schemas.ChatRequest, domain.Responses: schemas.ResponsesRequest, domain.Messages: schemas.MessagesRequest,
	} {
		list := slices.AppendSeq(s.MemberNames(), maps.Keys(clients))
		slices.Sort(list)
		names[dialect] = strings.Join(slices.Compact(list), " ")
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// IsClients tells whether a member is one that official clients send, although presets do not store it.
func IsClients(name string) bool { return clients[name] }

// Of returns names as a header's value. It cuts them at a length that all clients and proxies
// accept, and then ends in "...".
func Of(names []string) string {
	const most = 2048
	list := strings.Join(names, ", ")
	if len(list) <= most {
		return list
	}
	return list[:strings.LastIndex(list[:most], ", ")+1] + " ..."
}

// OfClients is Of for names that a client chose, at most Max of them.
func OfClients(names []string) string {
	shown := make([]string, min(len(names), Max))
	for i := range shown {
		shown[i] = Name(names[i])
	}
	if len(names) > Max {
		shown = append(shown, "...")
	}
	return Of(shown)
}

// Name returns a name that a client chose for a list in a header, or for an error. It cuts long names. It
// percent-encodes all but ASCII letters, digits and `_ . ~ - $ & + : = @`.
func Name(name string) string {
	switch {
	case name == "":
		return `""`
	case len(name) > maxName:
		return url.PathEscape(name[:maxName]) + "..."
	default:
		return url.PathEscape(name)
	}
}
