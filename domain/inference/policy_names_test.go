package inference_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// policyNames are the names that a policy can have, of the schema.
func policyNames(t *testing.T) (names struct{ Lock, Bounds []string }) {
	t.Helper()
	text, err := os.ReadFile("../../schema/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Properties struct {
			Lock   struct{ Items struct{ Enum []string } }
			Bounds struct{ PropertyNames struct{ Enum []string } }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names.Lock, names.Bounds = file.Properties.Lock.Items.Enum, file.Properties.Bounds.PropertyNames.Enum
	return names
}

// TestEachNameMakesAPolicy also checks that a damaged policy is an error.
func TestEachNameMakesAPolicy(t *testing.T) {
	names := policyNames(t)
	bounds := map[string]domain.Bound{}
	for _, name := range names.Bounds {
		bounds[name] = domain.Bound{Max: []byte("1")}
	}
	dropped := slices.DeleteFunc(slices.Clone(names.Lock), func(name string) bool { return name == "system" || name == "instructions" || name == "model" })
	r := newResolving(t)
	p := r.put(t, r.home.ID, "p", version{chat, `{"model":"m"}`, ""})
	r.change(t, p, func(p *domain.Preset) { p.Policy = &domain.Policy{Lock: names.Lock, Bounds: bounds, Drop: dropped} })
	got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p"}`)})
	wantBody(t, got, err, `{"model":"m"}`)
	r.change(t, p, func(p *domain.Preset) { p.Policy = &domain.Policy{Lock: []string{"nothing"}} })
	_, err = r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p"}`)})
	wantKind(t, err, domain.Internal, "no dialect has a setting")
}
