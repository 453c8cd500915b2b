package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

type issued struct{ id, secret string }

// issue creates a key through the admin endpoint.
func (s *server) issue(body string) issued {
	s.t.Helper()
	r := send(s.t, "POST", "http://"+s.admin+"/presets/keys", body)
	r.want(s.t, 201)
	var k struct{ ID, Key string }
	if err := json.Unmarshal([]byte(r.body), &k); err != nil {
		s.t.Fatal(err)
	}
	return issued{k.ID, k.Key}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// auditPage is a page of the audit trail.
type auditPage struct{ Records []domain.AuditRecord }

func (s *server) trail(query string) (page auditPage) {
	s.t.Helper()
	r := send(s.t, "GET", "http://"+s.admin+"/presets/audit"+query, "")
	r.want(s.t, 200)
	if err := json.Unmarshal([]byte(r.body), &page); err != nil {
		s.t.Fatal(err)
	}
	return page
}
