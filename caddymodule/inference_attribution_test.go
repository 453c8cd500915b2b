package caddymodule

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestAttribution sends requests as Claude Code does, with and without a preset, in each form of a body.
// By default each keeps its attribution in first place. With attribution drop none has it. What an
// attribution is, is the subject of domain/inference.
func TestAttribution(t *testing.T) {
	const (
		line  = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.3f4; cc_entrypoint=cli; cch=0a1b2;"}`
		own   = `{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}`
		brief = `{"type":"text","text":"Be brief."}`
		rest  = ` ], "stream" :true , "x":1.0e+2}`
	)
	unresolved, resolved := ` {"model":"m", "system" :[ `+line+` , `+own+rest, `{"model":"m@preset/writer","system":[`+line+`,`+own+`],"max_tokens":9}`
	s := start(t, inferring())
	s.manage("POST", "/v1/presets/writer/messages", `{"model":"m","max_tokens":9,"messages":[],"system":[`+line+`,`+brief+`]}`).want(t, 200)
	for setting, becomes := range map[string]map[string]string{
		"":                 {unresolved: unresolved, resolved: `{"model":"m","system":[` + line + `,` + brief + `,` + own + `],"max_tokens":9}`},
		"attribution drop": {unresolved: ` {"model":"m", "system" :[  ` + own + rest, resolved: `{"model":"m","system":[` + brief + `,` + own + `],"max_tokens":9}`},
	} {
		s.reload(inferring(setting))
		for body, want := range becomes {
			for _, path := range []string{messagesPath, countMessagesPath} {
				for form, request := range map[string]string{
					"plain":   post(path, body, bearer(inferenceSecret)),
					"gzip":    post(path, caddytest.Gzip(body), bearer(inferenceSecret), "Content-Encoding: gzip"),
					"chunked": postChunked(path, body, []string{"X-Trailer: x"}, bearer(inferenceSecret)),
					"text":    post(path, body, bearer(inferenceSecret), "Content-Type: text/plain"),
				} {
					exchange(t, s.address, request).want(t, 202)
					got, want := s.upstream.one(t), want
					if form == "gzip" && want == body {
						want = caddytest.Gzip(body)
					}
					if got.body != want || (got.header.Get("Content-Encoding") != "") != (form == "gzip" && body == becomes[body]) {
						t.Errorf("%s: %s %s: the gateway got %q\n%s, want\n%s", setting, body, form, got.header.Get("Content-Encoding"), got.body, want)
					}
					if isText := got.header.Get("Content-Type") == "text/plain"; isText != (form == "text" && body == unresolved) {
						t.Errorf("%s: %s %s: got the type %q", setting, body, form, got.header.Get("Content-Type"))
					}
				}
			}
			if dry := s.ask(messagesPath, body, "X-Preset-Dry-Run: true").described(t); dry.Data.Body != want || dry.Data.Fields["system"].From == "" {
				t.Errorf("%s: a dry run gives %+v, want %s", setting, dry.Data, want)
			}
		}
		s.ask(chatPath, unresolved).want(t, 202)
		if got := s.upstream.one(t).body; got != unresolved {
			t.Errorf("%s: chat changed to %s", setting, got)
		}
	}
	s.wantNothingHeld()
}

// TestUnpackedAttribution lets the gateway wait for a body in gzip that goes upstream without its
// attribution. Only the unpacked body is held meanwhile.
func TestUnpackedAttribution(t *testing.T) {
	tier.Race(t)
	const size = 14 << 20 // sockets buffer some MiB
	g := newStalls(t)
	s := start(t, inferring())
	if err := s.load(s.proxying(inferring("attribution drop"), "reverse_proxy "+g.address)); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 48<<10) // gzip saves little of its base64
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	text := base64.StdEncoding.EncodeToString(noise) + strings.Repeat("x", size)
	body := `{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"type":"text","text":"` + text + `"}]}`
	var group sync.WaitGroup
	group.Go(func() { s.ask(messagesPath, caddytest.Gzip(body), "Content-Encoding: gzip").want(t, 200) })
	g.wait(t, 1)
	if got := held(); got < int64(len(text)) || got > int64(len(body)+4<<10) {
		t.Errorf("%d bytes are held, want those of a body of %d", got, len(body))
	}
	g.goOn()
	group.Wait()
	s.wantNothingHeld()
}
