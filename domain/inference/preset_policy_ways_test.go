package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// TestLockedPromptInAnotherLetterCase has a list of messages whose name has another letter case.
// A gateway may take it for the one with the preset's prompt.
func TestLockedPromptInAnotherLetterCase(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "override", version{chat, `{"model":"m"}`, "Be kind."}, `{"lock":["system"]}`)
	r.ruled(t, "refuse", version{chat, `{"model":"m"}`, "Be kind."}, `{"lock":["system"],"violation":"refuse"}`)
	resolver := r.resolver(t, inference.Config{})
	const messages = `"messages":[{"role":"user","content":"x"}]`
	for _, other := range []string{`"Messages":[{"role":"user","content":"y"}]`, `"MESSAGES":null`, `"mess\u0041ges":[]`} {
		body := `{"preset":"override",` + messages + `,` + other + `}`
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
		wantBody(t, got, err, `{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"x"}],"model":"m"}`)
		if isNull := strings.HasSuffix(other, "null"); isNull != (len(got.Enforced) == 0) {
			t.Errorf("%s: enforced %q", other, got.Enforced)
		}
	}
	body := `{"preset":"refuse",` + messages + `,"Messages":[]}`
	_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
	wantKind(t, err, domain.Forbidden, "/Messages: is locked by the preset's policy")
}

// TestLockedFormatByItsOldName sends the format under the name that Anthropic used before.
func TestLockedFormatByItsOldName(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for _, name := range []string{"response_format", "text.format", "output_config.format"} {
		slug := strings.ReplaceAll(name, ".", "-")
		r.ruled(t, slug, version{messages, `{"model":"m","max_tokens":9}`, ""}, `{"lock":["`+name+`"]}`)
		r.ruled(t, slug+"-drop", version{messages, `{"model":"m","max_tokens":9}`, ""}, `{"drop":["`+name+`"]}`)
		for _, form := range []string{`"output_format":{"type":"json_schema"}`, `"extra_body":{"output_format":{"type":"json_schema"}}`} {
			for _, slug := range []string{slug, slug + "-drop"} {
				body := `{"preset":"` + slug + `","messages":[],` + form + `}`
				got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(body)})
				if err != nil || strings.Contains(string(got.Body.Bytes()), "output_format") || len(got.Enforced) != 1-strings.Count(slug, "-drop") {
					t.Errorf("%s: got %s, %v, enforced %q", body, got.Body.Bytes(), err, got.Enforced)
				}
			}
		}
	}
}

// TestNearestIsBounded sends a number outside of the bounds many times in one object.
func TestNearestIsBounded(t *testing.T) {
	const sent, corrected = 5000, 4 << 10
	r := newResolving(t)
	r.ruled(t, "p", version{chat, `{"model":"m"}`, ""}, `{"bounds":{"reasoning.max_tokens":{"in":[1,2,3]}}}`)
	body := `{"preset":"p","messages":[],"reasoning":{` + strings.Repeat(`"max_tokens":9,`, sent) + `"x":1}}`
	resolver := r.resolver(t, inference.Config{})
	_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
	wantKind(t, err, domain.Invalid, "must not have more than 4096 numbers outside of the bounds")
	body = strings.Replace(body, `"max_tokens":9,`, "", sent-corrected)
	got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
	wantBody(t, got, err, `{"messages":[],"reasoning":{`+strings.Repeat(`"max_tokens":3,`, corrected)+`"x":1},"model":"m"}`)
}
