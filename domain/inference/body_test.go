package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// memoryCount is a Memory that counts.
type memoryCount struct{ held int }

func (m *memoryCount) Reserve(size int) error {
	m.held += size
	return nil
}

func (m *memoryCount) Release(size int) { m.held -= size }

func (*memoryCount) Buffer(size int) []byte { return make([]byte, 0, size) }

// A merged body takes memory for what is neither the request's nor the cached preset's.
func TestMergedBodyIsCounted(t *testing.T) {
	r := newResolving(t)
	const size, small = 64 << 10, 8 << 10
	long := strings.Repeat("x", size)
	r.put(t, r.home.ID, "p", version{chat, `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}]}`, "Be brief."})
	r.put(t, r.home.ID, "long", version{chat, `{"model":"m"}`, long})
	r.putTemplate(t, "t", responses, `{"model":"m","instructions":"Say {{x}}.","input":"Where is {{x}}?"}`)
	r.ruled(t, "locked", version{chat, `{"model":"m","reasoning":{"effort":"low"}}`, "Be brief."}, `{"lock":["system","reasoning.effort"]}`)
	team := r.team(t, "team", "dm", "price")
	r.put(t, team.WorkspaceID, "p", version{chat, `{"model":"m"}`, "Be brief."})
	r.ruled(t, "toolless", version{messages, `{"model":"m"}`, "Be brief."}, `{"lock":["tools"]}`)
	const talk = `"messages":[{"role":"user","content":"Hi"}]`
	for name, tc := range map[string]struct {
		who  domain.Principal
		body string
		made int
	}{
		"a system message":        {user, `{"preset":"p","messages":[{"name":"` + long + `","role":"system","content":"` + long + `"}]}`, 0},
		"parts of one":            {user, `{"preset":"long","messages":[{"role":"system","content":[{"type":"text","text":"` + long + `"}]}]}`, 0},
		"a template's place":      {user, namesWithPrompt("t", `{"x":"y"}`, `,"messages":[{"role":"system","content":"`+long+`"},{"role":"user","content":"`+long+`"}]`), 0},
		"a limited conversation":  {user, `{"preset":"toolless","messages":[{"role":"user","content":"` + long + `","tools":[{}]}]}`, size},
		"a conversation":          {user, `{"preset":"p","messages":[{"role":"user","content":"` + long + `"}]}`, 0},
		"a setting":               {user, `{"preset":"p",` + talk + `,"user":"` + long + `"}`, 0},
		"a long prompt":           {user, `{"preset":"long",` + talk + `}`, 0},
		"a value with an escape":  {user, namesWithPrompt("t", `{"x":"\u0041`+long+`"}`, ""), size},
		"a locked prompt":         {user, `{"preset":"locked","messages":[{"role":"system","content":"x"},{"role":"user","content":"` + long + `"}]}`, size},
		"a locked setting":        {user, `{"preset":"locked","reasoning":{"effort":"high","summary":"` + long + `"}}`, size},
		"tools":                   {user, `{"preset":"p",` + talk + `,"tools":[{"type":"function","function":{"name":"` + long + `"}}]}`, size},
		"an order of providers":   {team, `{"preset":"p",` + talk + `,"provider":{"x":"` + long + `"}}`, size},
		"the usage of the stream": {user, `{"preset":"p",` + talk + `,"stream":true,"stream_options":{"x":"` + long + `"}}`, size},
	} {
		resolver := r.resolver(t, inference.Config{AddStreamUsage: true})
		memory := new(memoryCount)
		got, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: chat, Body: []byte(tc.body), Memory: memory})
		if err != nil || got.Preset == "" {
			t.Fatalf("%s: got %q, %v", name, got.Preset, err)
		}
		if memory.held < tc.made || memory.held > tc.made+small {
			t.Errorf("%s: %d bytes are held, want %d and little more", name, memory.held, tc.made)
		}
	}
}
