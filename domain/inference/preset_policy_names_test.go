package inference_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// TestPolicyNames checks that the schema of policies has the names of the tables, and that
// each makes a policy.
func TestPolicyNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "schema", "policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Properties struct {
			Lock   struct{ Items struct{ Enum []string } }
			Bounds struct{ PropertyNames struct{ Enum []string } }
			Drop   struct{ Items struct{ Pattern string } }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	want := inference.SettingNames()
	if got := file.Properties.Lock.Items.Enum; !slices.Equal(got, want) {
		t.Errorf("lock: got %q, want %q", got, want)
	}
	want = slices.DeleteFunc(want, func(name string) bool { return name == "system" || name == "instructions" || name == "model" })
	dropped := regexp.MustCompile(file.Properties.Drop.Items.Pattern)
	for _, name := range want {
		if !dropped.MatchString(name) {
			t.Errorf("drop: %s is no name", name)
		}
	}
	bounds := map[string]domain.Bound{}
	for _, name := range file.Properties.Bounds.PropertyNames.Enum {
		parts := slices.ContainsFunc(want, func(other string) bool { return strings.HasPrefix(other, name+".") && name != "thinking" })
		if !slices.Contains(want, name) || parts || inference.ScalarPlaces(name) == 0 {
			t.Errorf("bounds: %s is not the name of one setting", name)
		}
		bounds[name] = domain.Bound{Max: []byte("1")}
	}
	r := newResolving(t)
	p := r.put(t, r.home.ID, "p", version{chat, `{"model":"m"}`, ""})
	r.change(t, p, func(p *domain.Preset) {
		p.Policy = &domain.Policy{Lock: inference.SettingNames(), Bounds: bounds, Drop: want}
	})
	got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p"}`)})
	wantBody(t, got, err, `{"model":"m"}`)
	r.change(t, p, func(p *domain.Preset) { p.Policy = &domain.Policy{Lock: []string{"nothing"}} })
	_, err = r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p"}`)})
	wantKind(t, err, domain.Internal, "no dialect has a setting")
}
