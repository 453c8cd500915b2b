package reference

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// TestNameForClaude checks that each name is one that Claude Code keeps, and that a request with it
// names the preset.
func TestNameForClaude(t *testing.T) {
	long := strings.Repeat("claude", MaxReference/6)
	for _, tc := range []struct{ model, pin, want string }{
		{"claude-opus-5", "", "claude-opus-5@preset/p"},
		{"bedrock/us.Anthropic.x-v1:0", "", "bedrock/us.Anthropic.x-v1:0@preset/p"},
		{"openrouter/CLAUDE", "staging", "openrouter/CLAUDE@preset/p@staging"},
		{"gpt-5", "", "anthropic/@preset/p"},
		{"", "2", "anthropic/@preset/p@2"},
		{"anthropic/", "", "anthropic/@preset/p"},
		{"claude/ ", "", "anthropic/@preset/p"},
		{"claude/:free", "", "anthropic/@preset/p"},
		{long, "", "anthropic/@preset/p"},
	} {
		ref := Ref{Slug: "p", Pin: tc.pin}
		got := ref.NameForClaude(tc.model)
		if got != tc.want {
			t.Errorf("%.40q: got %q, want %q", tc.model, got, tc.want)
		}
		var q Request
		q.Read(rawjson.ObjectOf(rawjson.NewMember("model", rawjson.Quote(got))))
		own := strings.TrimSuffix(got, domain.ReferenceMark+strings.TrimPrefix(ref.String(), domain.ReferenceMark))
		if q.Err != nil || !q.Found || q.Ref != ref || q.Model != "" && (q.Model != own || q.Model != tc.model) {
			t.Errorf("%.40q: read as %+v of model %q, %v", got, q.Ref, q.Model, q.Err)
		}
	}
}
