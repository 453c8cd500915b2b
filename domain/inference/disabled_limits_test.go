package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestLimitsWhereToolsAreDisabled has requests with as many models, fields and tools as are
// searched, and with one more. The same limit of models holds for a key that may use only some.
func TestLimitsWhereToolsAreDisabled(t *testing.T) {
	tier.NoRace(t)
	const models, visited = 1024, 64 << 10
	list := func(before string, count int, one, after string) string {
		return before + strings.TrimSuffix(strings.Repeat(one+",", count), ",") + after
	}
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict := r.strict(t, "strict", search)
	limited := r.team(t, "limited", "", "")
	limited.Scope = &domain.Scope{Models: []string{"*"}}
	for _, tc := range []struct {
		who  domain.Principal
		body func(more int) string
		want string
	}{
		{strict, func(more int) string {
			return list(`{"model":"m","models":[`, models-1+more, `"n"`, `]}`)
		}, "/models/1023: must not bring the request above 1024 models"},
		{strict, func(more int) string {
			return list(`{"model":"m","models":["`, models-1+more, `n`, `"]}`)
		}, "/models/0: must not bring the request above 1024 models"},
		{strict, func(more int) string {
			return list(`{"model":"m","fallbacks":[`, models-1+more, `{"model":"n"}`, `]}`)
		}, "/fallbacks/1023/model: must not bring the request above 1024 models"},
		{limited, func(more int) string {
			return list(`{"model":"m","models":[`, models-1+more, `"n"`, `]}`)
		}, "/models/1023: must not bring the request above 1024 models"},
		{strict, func(more int) string {
			return list(`{"model":"m",`, visited-1+more, `"a":1`, `}`)
		}, "/a: must not bring the fields, tools and plugins above 65536"},
		{strict, func(more int) string {
			return list(`{"model":"m","tools":[`, visited-2+more, `"t"`, `]}`)
		}, "/tools/65534: must not bring the fields, tools and plugins above 65536"},
		{strict, func(more int) string {
			return list(`{"model":"m","extra_body":{"plugins":[`, (visited-3)/2+more, `{"id":"p"}`, `]}}`)
		}, "must not bring the fields, tools and plugins above 65536"},
	} {
		sent := inference.Request{Dialect: chat, Body: []byte(tc.body(0))}
		if _, err := resolver.Resolve(t.Context(), tc.who, sent); err != nil {
			t.Errorf("%.60s: got error %v at the limit", sent.Body, err)
		}
		sent.Body = []byte(tc.body(1))
		_, err := resolver.Resolve(t.Context(), tc.who, sent)
		wantKind(t, err, domain.Invalid, tc.want)
	}
	messages := list(`{"model":"m","messages":[`, visited, `{"role":"user","content":"x"}`, `]}`)
	if _, err := resolver.Resolve(t.Context(), strict, inference.Request{Dialect: chat, Body: []byte(messages)}); err != nil {
		t.Errorf("many messages: got error %v", err)
	}
}
