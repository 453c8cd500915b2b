package transfer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// markID is the id of the kept answer that tells of an import. Those of clients are
// digests of another kind of text.
var markID = domain.ReplayID(sha256.Sum256([]byte("caddy-presets: an import is under way")))

// markLifetime is how long an import can stay unfinished, and doneLifetime for how long it
// is known that one was finished, for whoever was not told.
const (
	markLifetime = 10 * 365 * 24 * time.Hour
	doneLifetime = 24 * time.Hour
)

// mark tells how far an import is. The zero value is that of none.
type mark struct {
	// Line is the number of the last line that was imported, and Sum the SHA-256 of
	// all lines up to it.
	Line int `json:"line"`
	Sum  sum `json:"sha256"`
	// Header is the SHA-256 of the first line.
	Header sum `json:"header_sha256"`
	// Workspace is the id of the default workspace that a server has made, empty for
	// none. It goes when that of the file comes.
	Workspace string `json:"workspace_id"`
	// Done tells that all lines were imported.
	Done bool `json:"done"`
}

// readMark returns the mark of the import that is not finished.
func readMark(r domain.Reader) (mark, error) {
	m, err := lastMark(r)
	if m.Done {
		m = mark{}
	}
	return m, err
}

// lastMark returns the mark of the last import.
func lastMark(r domain.Reader) (m mark, err error) {
	kept, err := r.Replay(markID)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return mark{}, nil
	case err != nil:
		return mark{}, err
	case !kept.ExpiresAt.After(time.Now()):
		return mark{}, nil
	}
	if err := jsonv2.Unmarshal(kept.Answer, &m, jsonv2.RejectUnknownMembers(true)); err != nil || m.Line < 1 {
		return mark{}, fmt.Errorf("%w: how far an earlier import came cannot be read", ErrStore)
	}
	return m, nil
}

// put stores m.
func (m mark) put(tx domain.Tx) error {
	text, err := jsonv2.Marshal(m)
	if err != nil {
		return err
	}
	lifetime := markLifetime
	if m.Done {
		lifetime = doneLifetime
	}
	return tx.PutReplay(domain.Replay{ID: markID, Request: m.Sum[:], Answer: text, ExpiresAt: time.Now().UTC().Add(lifetime)})
}

// freshWorkspace returns the id of the default workspace of a store in which a server
// has just made it, and "" of one in which nothing is stored. Of any other it returns
// an error.
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

// deleteFreshWorkspace deletes the default workspace of an id, if it is still there.
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
