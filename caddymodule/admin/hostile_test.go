package admin

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestHostileTexts prints texts of hostile files. A terminal would obey them.
func TestHostileTexts(t *testing.T) {
	const hostile = "\x1b]0;x\a\x1b[2J\tx\ny\u202e\x9b\xff"
	records := func(yield func(domain.AuditRecord, error) bool) {
		yield(domain.AuditRecord{Number: 1, Operation: hostile, UserID: hostile, KeyID: hostile, RequestID: hostile, Actor: hostile, Object: domain.AuditObject{Slug: hostile, Label: hostile}}, nil)
	}
	key := issuedKey{UserID: hostile, WorkspaceSlug: hostile, Name: hostile}
	pruned := pruneResult{Total: 1, Presets: []domain.Pruned{{WorkspaceSlug: hostile, Slug: hostile, Versions: "1"}}}
	for name, print := range map[string]func(*strings.Builder) error{
		"audit":    func(w *strings.Builder) error { return printRecords(w, records) },
		"key list": func(w *strings.Builder) error { return printKeys(w, []issuedKey{key}) },
		"key show": func(w *strings.Builder) error { return key.print(w) },
		"prune":    func(w *strings.Builder) error { return printPruned(w, pruned) },
		"verify": func(w *strings.Builder) error {
			return verdict{Backup: &backupSummary{Digest: hostile}, Error: hostile}.print(w)
		},
	} {
		var text strings.Builder
		if err := print(&text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := text.String(); strings.ContainsAny(got, "\x1b\a\u202e") || !utf8.ValidString(got) || strings.Contains(got, "\ny") || !strings.Contains(got, `\x1b`) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
