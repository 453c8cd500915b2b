package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// stock is a running Caddy without presets.
type stock struct {
	*server
	proxy   string // address of the shipped configuration without our directives
	respond string // address of a site that responds with bytes
	admin   string // address of its admin endpoint
	bytes   []byte
}

// startStock starts stock Caddy.
func (b *bench) startStock(respond []byte) (*stock, error) {
	if bytes.ContainsRune(respond, '`') {
		return nil, errors.New("a Caddyfile cannot hold this response")
	}
	addresses := reserveAddresses(3)
	s := &stock{proxy: addresses[0], respond: addresses[1], admin: addresses[2], bytes: respond}
	file, err := b.caddyfile(func(text string) (string, error) {
		text, err := withoutOurs(text)
		return text + fmt.Sprintf("\nhttp://%s {\n\tbind 127.0.0.1\n\theader Content-Type application/json\n\trespond `%s`\n}\n", s.respond, respond), err
	})
	if err != nil {
		return nil, err
	}
	env := append(listenOn(s.proxy), "CADDY_ADMIN="+s.admin, "PRESETS_UPSTREAM="+b.upstream)
	s.server, err = b.start(b.command(b.stock, "run", "--config", file, "--adapter", "caddyfile"), env, s.get())
	return s, err
}

// withoutOurs returns the shipped configuration without our directives, for stock Caddy.
func withoutOurs(text string) (string, error) {
	const ours = "\tpresets {\n"
	before, rest, begins := strings.Cut(text, ours)
	_, after, ends := strings.Cut(rest, "\n\t}\n")
	if !begins || !ends {
		return "", fmt.Errorf("the shipped Caddyfile has no %q any more", ours)
	}
	return before + after, nil
}

func (s *stock) get() *request {
	r := newRequest(s.respond, http.MethodGet, "/", "nobody", "", http.StatusOK, nil)
	r.size = len(s.bytes)
	return r
}

func (s *stock) infer() *request {
	return gatewayRequest(s.proxy, "/v1/responses", "nobody", model, nil)
}

// check checks the answers of the server.
func (s *stock) check() error {
	_, body, err := s.get().ask()
	if err != nil {
		return err
	}
	if !bytes.Equal(body, s.bytes) {
		return fmt.Errorf("stock Caddy responds with %s, want %s", body, s.bytes)
	}
	return checkUntouched(s.proxy, "/v1/responses", "nobody")
}
