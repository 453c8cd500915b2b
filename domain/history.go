package domain

import (
	"context"
	"errors"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// HistoryEntry is an audit record as the history of a preset or workspace shows it. Fields
// that do not apply are nil. Those of an AuditRecord's Object mean the same as there.
type HistoryEntry struct {
	Number    int       `json:"number"`
	Time      time.Time `json:"time"`
	Operation string    `json:"operation"`
	UserID    string    `json:"user_id"`
	KeyID     *string   `json:"key_id"`
	KeyName   *string   `json:"key_name"` // the name that the key has now
	Slug      *string   `json:"slug"`
	// Version is the new version where that is a draft. Before is nil then.
	Before     *int          `json:"version_before"`
	Version    *int          `json:"version"`
	IsDraft    bool          `json:"draft"`
	Label      *string       `json:"label"`
	Message    *string       `json:"message"`
	Split      *string       `json:"split"`
	Status     *PresetStatus `json:"status"`
	Protection *string       `json:"protection"`
	ManagedBy  *string       `json:"managed_by"`
	Override   *string       `json:"override"`
	RequestID  *string       `json:"request_id"`
	InputID    *string       `json:"input_id,omitzero"`
	// ChangedKeyID is the key that was changed, if it is one.
	ChangedKeyID *string `json:"changed_key_id"`
	// Name and Changes of a key are there only for a principal that may issue keys.
	Name    *string            `json:"name,omitzero"`
	Changes []diff.FieldChange `json:"changes,omitzero"`
}

// nilIfZero returns a pointer to value, nil for the zero value.
func nilIfZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

func newHistoryEntry(r AuditRecord, keyName *string) HistoryEntry {
	of := r.Object
	e := HistoryEntry{
		Number: r.Number, Time: r.Time, Operation: r.Operation, UserID: r.UserID,
		KeyID: nilIfZero(r.KeyID), KeyName: keyName, Slug: nilIfZero(of.Slug),
		Before: nilIfZero(r.Before), Version: nilIfZero(r.After), Label: nilIfZero(of.Label),
		Message: nilIfZero(of.Message), Split: nilIfZero(of.Split), Status: nilIfZero(of.Status),
		Protection: nilIfZero(of.Protection), ManagedBy: nilIfZero(of.ManagedBy), Override: nilIfZero(r.Override),
		RequestID: nilIfZero(r.RequestID), InputID: nilIfZero(of.Input), Name: nilIfZero(of.Name), Changes: r.Changes,
	}
	if of.Kind == "key" {
		e.ChangedKeyID = &of.ID
	}
	if of.Draft != 0 {
		e.Before, e.Version, e.IsDraft = nil, &of.Draft, true
	}
	return e
}

// PresetHistory returns a page of the audit records that concern a preset of any status,
// the newest first. who must be allowed to manage.
func (s *Service) PresetHistory(ctx context.Context, who Principal, workspace, slug string, page Page) (Found, error) {
	return s.history(ctx, who, page, func(r Reader) (string, error) {
		p, err := presetOf(r, who, workspace, slug)
		return p.ID, err
	})
}

// WorkspaceHistory returns a page of audit records, the newest first. They concern the
// workspace of an id or slug, its presets, and the keys that act only in it. who must be
// allowed to manage.
func (s *Service) WorkspaceHistory(ctx context.Context, who Principal, ref string, page Page) (Found, error) {
	return s.history(ctx, who, page, func(r Reader) (string, error) {
		id, _, err := reachedWorkspace(r, who, ref)
		return id, err
	})
}

// history returns a page of the history of the object whose id find returns.
func (s *Service) history(ctx context.Context, who Principal, page Page, find func(Reader) (string, error)) (list Found, err error) {
	if err := who.CheckManagement(); err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(r Reader) error {
		id, err := find(r)
		if err != nil {
			return err
		}
		numbers, total, err := r.History(id, page)
		if err != nil {
			return err
		}
		entries := make([]HistoryEntry, len(numbers))
		for i, n := range numbers {
			record, err := r.AuditRecord(n)
			if err != nil {
				return err
			}
			k, err := r.Key(record.KeyID) // zero for a key that was not issued, or is removed
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			entries[i] = newHistoryEntry(record, nilIfZero(k.Name))
			if entries[i].ChangedKeyID != nil && who.CheckIssueKeys() != nil {
				entries[i].Name, entries[i].Changes = nil, nil
			}
		}
		text, err := jsonv2.Marshal(entries)
		list = listed(text, total)
		return err
	})
	return list, err
}
