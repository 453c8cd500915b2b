package transfer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// progressID is the id of the kept answer that holds the progress of an import. No client's
// id equals it, because those are digests of a different text.
var progressID = domain.ReplayID(sha256.Sum256([]byte("caddy-presets: an import is under way")))

// unfinishedLifetime is how long an import can stay unfinished. doneLifetime is how long a
// finished import is remembered, for callers whose answer was lost.
const (
	unfinishedLifetime = 10 * 365 * 24 * time.Hour
	doneLifetime       = 24 * time.Hour
)

// progress is how far an import came. The zero value means that there is none.
type progress struct {
	// Line is the number of the last imported line. Sum is the SHA-256 of all lines up to
	// it.
	Line int `json:"line"`
	Sum  sum `json:"sha256"`
	// Header is the SHA-256 of the first line.
	Header sum `json:"header_sha256"`
	// Workspace is the id of the default workspace that a server created, empty if there is
	// none. The file's default workspace replaces it.
	Workspace string `json:"workspace_id"`
	// Preset is the preset that is stored with some of its versions. It is the id of its
	// workspace, a slash and its slug, or empty if there is none.
	Preset string `json:"preset,omitzero"`
	// Done is set when all lines were imported.
	Done bool `json:"done"`
}

// unfinishedProgress returns how far an unfinished import came.
func unfinishedProgress(r domain.Reader) (progress, error) {
	m, err := lastProgress(r)
	if m.Done {
		m = progress{}
	}
	return m, err
}

// lastProgress returns how far the last import came.
func lastProgress(r domain.Reader) (m progress, err error) {
	kept, err := r.Replay(progressID)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return progress{}, nil
	case err != nil:
		return progress{}, err
	case !kept.ExpiresAt.After(time.Now()):
		return progress{}, nil
	}
	if err := jsonv2.Unmarshal(kept.Answer, &m, jsonv2.RejectUnknownMembers(true)); err != nil || m.Line < 1 {
		return progress{}, fmt.Errorf("%w: how far an earlier import came cannot be read", ErrStore)
	}
	return m, nil
}

// put stores m.
func (m progress) put(tx domain.Tx) error {
	text, err := jsonv2.Marshal(m)
	if err != nil {
		return err
	}
	lifetime := unfinishedLifetime
	if m.Done {
		lifetime = doneLifetime
	}
	return tx.PutReplay(domain.Replay{ID: progressID, Request: m.Sum[:], Answer: text, ExpiresAt: time.Now().UTC().Add(lifetime)})
}

// freshWorkspace returns the id of the default workspace if the store has nothing else. It
// returns "" for an empty store, and an error for any other store.
func freshWorkspace(r domain.Reader) (string, error) {
	head, err := r.AuditHead()
	if err != nil {
		return "", err
	}
	list, workspaces, err := r.WorkspacePage(domain.Page{Limit: 2})
	if err != nil {
		return "", err
	}
	notEmpty := fmt.Errorf("%w: there is something in it, and an import goes into an empty store", ErrStore)
	if head.Count > 1 || workspaces > 1 {
		return "", notEmpty
	}
	keys, err := r.Keys()
	if err != nil {
		return "", err
	}
	if len(keys) > 0 || workspaces < head.Count {
		return "", notEmpty
	}
	if workspaces == 0 {
		return "", nil
	}
	var only []domain.Workspace
	if err := jsonv2.Unmarshal(list, &only); err != nil || len(only) != 1 {
		return "", errors.New("the list of workspaces cannot be read")
	}
	w := only[0]
	for _, err := range r.Presets(w.ID) {
		if err == nil {
			err = notEmpty
		}
		return "", err
	}
	if w.Slug != domain.DefaultWorkspaceSlug || w.UpdatedAt != nil {
		return "", notEmpty
	}
	if head.Count == 1 {
		made, err := r.AuditRecord(1)
		if err != nil {
			return "", err
		}
		if made.Operation != "workspace.create" || made.Object.ID != w.ID {
			return "", notEmpty
		}
	}
	return w.ID, nil
}

// deleteFreshWorkspace deletes the default workspace if it still exists.
func deleteFreshWorkspace(tx domain.Tx, id string) error {
	if id == "" {
		return nil
	}
	w, err := tx.Workspace(id)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return tx.DeleteWorkspace(w)
}
