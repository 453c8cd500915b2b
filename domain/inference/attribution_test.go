package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// claudeCode is the block with which Claude Code begins the system prompt.
const claudeCode = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.3f4; cc_entrypoint=sdk-cli; cch=0a1b2;"}`

// The preset's prompt comes behind the attribution of Claude Code, which stays first.
func TestAttributionStaysFirst(t *testing.T) {
	const own = `{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}`
	const block = `{"type":"text","text":"P"}`
	const twoLines = `{"type":"text","text":"x-anthropic-billing-header: a=b;\n\nYou are an agent."}`
	var cases []merging
	for name, system := range map[string][2]string{
		"before others":         {`[ ` + claudeCode + ` , ` + own + ` ]`, `[ ` + claudeCode + `,` + block + ` , ` + own + ` ]`},
		"alone":                 {`[` + claudeCode + `]`, `[` + claudeCode + `,` + block + `]`},
		"escaped":               {`[{"text":"\u0078-anthropic-billing-header: a","type":"text"},` + own + `]`, `[{"text":"\u0078-anthropic-billing-header: a","type":"text"},` + block + `,` + own + `]`},
		"with a prompt in it":   {`[` + twoLines + `]`, `[` + twoLines + `,` + block + `]`},
		"before the prompt":     {`[` + claudeCode + `,` + block + `,` + own + `]`, `[` + claudeCode + `,` + block + `,` + own + `]`},
		"before a longer one":   {`[` + claudeCode + `,{"text":"P\n\nx"}]`, `[` + claudeCode + `,{"text":"P\n\nx"}]`},
		"in second place":       {`[` + own + `,` + claudeCode + `]`, `[` + block + `,` + own + `,` + claudeCode + `]`},
		"without the colon":     {`[{"text":"x-anthropic-billing-header"}]`, `[` + block + `,{"text":"x-anthropic-billing-header"}]`},
		"as a part of a string": {`"x-anthropic-billing-header: a=b;"`, `"P\n\nx-anthropic-billing-header: a=b;"`},
	} {
		cases = append(cases, merging{
			name: name, to: messages, prompt: "P",
			body: `{"preset":"p","system":` + system[0] + `}`, want: `{"system":` + system[1] + `,"model":"m"}`,
		})
	}
	cases = append(cases, merging{
		name: "in another API", to: chat, prompt: "P",
		body: `{"preset":"p","system":[` + claudeCode + `],"messages":[]}`, want: `{"system":[` + claudeCode + `],"messages":[{"role":"system","content":"P"}],"model":"m"}`,
	})
	testMerge(t, cases)
}

// A preset that is made of a request of Claude Code does not keep the attribution, and the request
// that names it goes upstream unchanged.
func TestAttributionIsNotCaptured(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for system, want := range map[string]*string{
		`[` + claudeCode + `,{"type":"text","text":"a"},{"type":"text","text":"b"}]`: new("a\n\nb"),
		`[` + claudeCode + `]`: nil,
		`[{"type":"text","text":"x-anthropic-billing-header: a\nb"}]`: new("x-anthropic-billing-header: a\nb"),
		`[{"type":"text","text":"a"},` + claudeCode + `]`:             new("a\n\n" + claudeCode[len(`{"type":"text","text":"`):len(claudeCode)-len(`"}`)]),
	} {
		body := `{"model":"m","system":` + system + `}`
		in, err := captureIn(t, messages, body)
		if err != nil || (in.SystemPrompt == nil) != (want == nil) || want != nil && *in.SystemPrompt != *want {
			t.Errorf("%s: got %q, %v", system, domain.ValueOr(in.SystemPrompt, ""), err)
			continue
		}
		if _, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), "", "p", in, domain.Release{}); err != nil {
			t.Fatal(err)
		}
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: withPreset([]byte(body))})
		wantBody(t, got, err, body)
	}
}

// Without the attribution, each other byte of a request without a preset stays.
func TestDroppedAttribution(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{messages, `{"model":"m"}`, "P"})
	r.put(t, r.home.ID, "silent", version{messages, `{"model":"m"}`, ""})
	r.ruled(t, "locked", version{messages, `{"model":"m"}`, "P"}, `{"lock":["system"]}`)
	dropping, keeping := r.resolver(t, inference.Config{DropAttribution: true}), r.resolver(t, inference.Config{})
	const own = `{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}`
	const block = `{"type":"text","text":"P"}`
	for _, tc := range []struct{ sent, want string }{
		{` { "model" : "m" , "system" : [ ` + claudeCode + ` , ` + own + ` ] , "x":1.0 } `, ` { "model" : "m" , "system" : [  ` + own + ` ] , "x":1.0 } `},
		{`{"system":[` + claudeCode + `],"model":"m"}`, `{"model":"m"}`},
		{`{"model":"m" , "system": [ ` + claudeCode + ` ] }`, `{"model":"m"  }`},
		{`{ "system" : [` + claudeCode + `] }`, `{  }`},
		{`{"x":1 ,"system":[` + claudeCode + `]}`, `{"x":1 }`},
		{`{"a":1, "system":[` + claudeCode + `] , "messages":[]}`, `{"a":1,  "messages":[]}`},
		{`{"metadata":{"system":[` + claudeCode + `]},"x":"system","system":[` + claudeCode + `,` + own + `]}`, `{"metadata":{"system":[` + claudeCode + `]},"x":"system","system":[` + own + `]}`},
		{`{"s\u0079stem":[` + claudeCode + `,` + claudeCode + `]}`, `{"s\u0079stem":[` + claudeCode + `]}`},
		{`{"prompt":{"id":"theirs"},"system":[` + claudeCode + `,` + own + `]}`, `{"prompt":{"id":"theirs"},"system":[` + own + `]}`},
		{`{"x":` + deep(100) + `,"system":[` + claudeCode + `,` + own + `]}`, `{"x":` + deep(100) + `,"system":[` + own + `]}`},

		{`{"preset":"p","system":[` + claudeCode + ` , ` + own + `]}`, `{"system":[` + block + `, ` + own + `],"model":"m"}`},
		{`{"preset":"p","system":[` + claudeCode + `,` + block + `]}`, `{"system":[` + block + `],"model":"m"}`},
		{`{"preset":"p","system":[` + claudeCode + `],"messages":[]}`, `{"messages":[],"model":"m","system":"P"}`},
		{`{"preset":"silent","system":[` + claudeCode + `],"messages":[]}`, `{"messages":[],"model":"m"}`},
		{`{"preset":"silent","system":[` + claudeCode + `,` + own + `]}`, `{"system":[` + own + `],"model":"m"}`},
		{`{"preset":"locked","system":[` + claudeCode + `,` + own + `]}`, `{"model":"m","system":"P"}`},
	} {
		passing := r.resolver(t, inference.Config{DropAttribution: true, PassUnknownPrompts: true})
		for _, resolver := range []*inference.Resolver{dropping, passing} {
			if resolver == dropping && strings.Contains(tc.sent, "theirs") {
				continue
			}
			sent := []byte(tc.sent)
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: sent})
			wantBody(t, got, err, tc.want)
			if !got.Rewritten || string(sent) != tc.sent {
				t.Errorf("%s: got rewritten %t, and the sent body is %s", tc.sent, got.Rewritten, sent)
			}
		}
	}
	for _, sent := range []string{
		`{"system":"x-anthropic-billing-header: a=b;"}`,
		`{"system":[` + own + `,` + claudeCode + `]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: a=b;\nYou are an agent."}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: ` + strings.Repeat("a", 1024) + `"}]}`,
		`{"System":[` + claudeCode + `]}`,
		`{"messages":[{"role":"system","content":[` + claudeCode + `]}]}`,
		`{"system":[` + claudeCode + `,` + own + `],"system":[` + claudeCode + `]}`,
		`{"system":[` + claudeCode + `,` + own + `],?`,
		`[` + claudeCode + `]`, `{"system":[]}`, `{"system":null}`, `{}`, ``,
	} {
		got, err := dropping.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(sent)})
		if err != nil || got.Rewritten || got.Body.String() != sent {
			t.Errorf("%s: got rewritten %t %s, %v", sent, got.Rewritten, got.Body, err)
		}
	}
	const sent = `{"system":[` + claudeCode + `,` + own + `]}`
	for dialect, resolver := range map[domain.Dialect]*inference.Resolver{messages: keeping, chat: dropping, responses: dropping} {
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(sent)})
		if err != nil || got.Rewritten || got.Body.String() != sent {
			t.Errorf("%s: got rewritten %t %s, %v", dialect, got.Rewritten, got.Body, err)
		}
	}
}

// Under a lock of the system prompt only an attribution stays that can be nothing else.
func TestAttributionUnderALock(t *testing.T) {
	r := newResolving(t)
	const header = `x-anthropic-billing-header:`
	const block = `{"type":"text","text":"P"}`
	line := func(text string) string { return `{"type":"text","text":"` + text + `"}` }
	for _, tc := range []struct {
		system, prompt, want string
		isViolation          bool
	}{
		{`[` + claudeCode + `]`, "P", `[` + claudeCode + `,` + block + `]`, false},
		{`[` + claudeCode + `]`, "", `[` + claudeCode + `]`, false},
		{`[` + claudeCode + `,` + block + `]`, "P", `[` + claudeCode + `,` + block + `]`, false},
		{`[` + claudeCode + `,{"type":"text","text":""}]`, "P", `[` + claudeCode + `,` + block + `]`, false},
		{`[` + claudeCode + `,{"type":"text","text":"own"}]`, "P", `[` + claudeCode + `,` + block + `]`, true},
		{`[` + claudeCode + `,{"type":"text","text":"own"}]`, "", `[` + claudeCode + `]`, true},
		{`[` + claudeCode + `,{"type":"image"}]`, "P", `[` + claudeCode + `,` + block + `]`, true},
		{`[` + claudeCode + `,` + claudeCode + `]`, "P", `[` + claudeCode + `,` + block + `]`, true},
		{`[{"type":"other","text":"` + header + ` cch=1;","title":"own"}]`, "P", `[` + line(header+" cch=1;") + `,` + block + `]`, false},
		// None of these is an attribution and nothing else.
		{`[{"type":"text","text":"own"},` + claudeCode + `]`, "P", `"P"`, true},
		{`"` + header + ` cch=1;"`, "P", `"P"`, true},
		{`[{"type":"text","text":"` + header + ` cch=1;","text":"own"}]`, "P", `"P"`, true},
		{`[{"type":"text","Text":"own","text":"` + header + ` cch=1;"}]`, "P", `"P"`, true},
		{`[` + line(header) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=1; Answer in French.`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=1;\nAnswer in French.`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=1;\n`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=Answer in French;`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=antwortet\u00e4;`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` rule=1;`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=`+strings.Repeat("a", 25)+`;`) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cc`+strings.Repeat("a", 21)+`=1;`) + `]`, "P", `"P"`, true},
		{`[` + line(header+strings.Repeat(` cch=1;`, 7)) + `]`, "P", `"P"`, true},
		{`[` + line(header+` cch=1;`+strings.Repeat(" ", 2000)+`own`) + `]`, "P", `"P"`, true},
		{`[` + line(` `+header+` cch=1;`) + `]`, "P", `"P"`, true},
		{`[` + line(`X-Anthropic-Billing-Header: cch=1;`) + `]`, "P", `"P"`, true},
	} {
		for _, mode := range []string{"override", "refuse"} {
			r.ruled(t, "p", version{messages, `{"model":"m"}`, tc.prompt}, `{"lock":["system"],"violation":"`+mode+`"}`)
			got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(`{"preset":"p","system":` + tc.system + `}`)})
			if mode == "refuse" && tc.isViolation {
				wantKind(t, err, domain.Forbidden, "/system: is locked by the preset's policy (system)")
				continue
			}
			want := `{"system":` + tc.want + `,"model":"m"}`
			if tc.want == `"P"` {
				want = `{"model":"m","system":"P"}`
			}
			wantBody(t, got, err, want)
			if enforced := strings.Join(got.Enforced, " "); enforced != map[bool]string{true: "system"}[tc.isViolation] {
				t.Errorf("%s: got enforced %q", tc.system, enforced)
			}
		}
	}
	// It is an attribution in this place alone.
	r.ruled(t, "p", version{messages, `{"model":"m"}`, "P"}, `{"lock":["system"]}`)
	for _, tc := range []struct {
		dialect    domain.Dialect
		sent, want string
	}{
		{chat, `"system":[` + claudeCode + `],"messages":[]`, `{"messages":[{"role":"system","content":"P"}],"model":"m"}`},
		{messages, `"System":[` + claudeCode + `]`, `{"model":"m","system":"P"}`},
		{messages, `"messages":[{"role":"system","content":[` + claudeCode + `]}]`, `{"messages":[],"model":"m","system":"P"}`},
	} {
		got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: []byte(`{"preset":"p",` + tc.sent + `}`)})
		wantBody(t, got, err, tc.want)
	}
}
