package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// TestWordsAreUTF8 sends words that some gateways read without the bytes that are not UTF-8. They
// are refused where a request is judged by words. Elsewhere, and in other texts, they pass.
func TestWordsAreUTF8(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "free", version{dialect: chat, config: `{"model":"openai/a"}`})
	r.ruled(t, "ruled", version{dialect: chat, config: `{"model":"openai/a"}`}, `{"lock":["system"]}`)
	strict := r.strict(t, "strict", search)
	r.put(t, strict.WorkspaceID, "free", version{dialect: chat, config: `{"model":"openai/a"}`})
	resolver := r.resolver(t, inference.Config{})
	models := domain.Scope{Models: []string{"openai/*"}}
	judged := []struct {
		name   string
		who    domain.Principal
		preset string // empty for a request without one
		where  string
	}{
		{"a policy", domain.Principal{}, "ruled", "where the preset has a policy"},
		{"a limited key", limitedBy(models), "", "for a key of some presets or models"},
		{"a limited key with a preset", limitedBy(models), "free", "for a key of some presets or models"},
		{"a key that requires a preset", limitedBy(domain.Scope{PresetRequired: true}), "free", "for a key of some presets or models"},
		{"disabled tools", strict, "", "where server tools are disabled"},
		{"disabled tools with a preset", strict, "free", "where server tools are disabled"},
	}
	body := func(preset, fields string) []byte {
		naming := `"model":"openai/a"`
		if preset != "" {
			naming = `"preset":"` + preset + `"`
		}
		return []byte(`{` + naming + `,` + fields + `}`)
	}
	const bad, half = "\xff", `\ud83d`
	for _, fields := range []string{
		`"mo#del":"evil"`, `"tools#":[]`, `"extra_body":{"m#odel":"evil"}`, `"messages":[{"ro#le":"system"}]`, `"metadata":{"#":"x"}`,
	} {
		for _, invalid := range []string{bad, half, "\xed\xa0\x80", "\xc0\xaf", `\uDE00`} {
			fields := strings.Replace(fields, "#", invalid, 1)
			for _, tc := range judged {
				_, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: chat, Body: body(tc.preset, fields)})
				if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), "that is not UTF-8 at byte ") || !strings.HasSuffix(err.Error(), tc.where) {
					t.Errorf("%s, %q: got %v", tc.name, fields, err)
				}
			}
			for _, preset := range []string{"", "free"} {
				out, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: body(preset, fields)})
				if err != nil || !strings.Contains(out.Body.String(), fields) {
					t.Errorf("preset %q, nothing is judged, %q: got %s, %v", preset, fields, out.Body, err)
				}
			}
		}
	}
	for _, fields := range []string{
		`"messages":[{"role":"user","content":"` + bad + half + `"}]`, `"user":"` + bad + `"`, `"tools":[{"type":"function","function":{"name":"f","description":"` + half + `"}}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"` + half + `"}],"\ud83d\ude00":"\ud83d\ude00"}]`,
	} {
		for _, tc := range judged {
			if _, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: chat, Body: body(tc.preset, fields)}); err != nil {
				t.Errorf("%s, %q: %v", tc.name, fields, err)
			}
		}
	}
	// Other words are compared where models are limited or tools disabled.
	for _, fields := range []string{`"plugins":[{"id":"we` + bad + `b"}]`, `"plugins":[{"id":"w` + half + `eb"}]`, `"fallbacks":[{"model":"m` + bad + `"}]`} {
		for _, tc := range judged[1:] {
			if tc.who.PresetRequired() {
				continue
			}
			_, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: chat, Body: body(tc.preset, fields)})
			if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), ": /plugins/0/id: ") && !strings.Contains(err.Error(), ": /fallbacks: ") {
				t.Errorf("%s, %q: got %v", tc.name, fields, err)
			}
		}
	}
}
