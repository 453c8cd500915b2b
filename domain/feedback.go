package domain

import (
	"context"
	"crypto/rand"
	"errors"
)

// FeedbackSecret authenticates the handles by which requests get feedback. All nodes of a
// store share it. It is never shown.
type FeedbackSecret [32]byte

// String hides the secret from logs and errors.
func (FeedbackSecret) String() string { return "hidden" }

// GoString hides the secret from logs and errors.
func (FeedbackSecret) GoString() string { return "hidden" }

// EnsureFeedbackSecret returns the secret of a store. The first call for the store makes it.
// Concurrent calls, also of several nodes, return the same secret.
func EnsureFeedbackSecret(ctx context.Context, store Store) (secret FeedbackSecret, err error) {
	err = store.View(ctx, func(r Reader) (err error) {
		secret, err = r.FeedbackSecret()
		return err
	})
	if !errors.Is(err, ErrNotFound) {
		return secret, err
	}
	var fresh FeedbackSecret
	_, _ = rand.Read(fresh[:]) // never fails: crypto/rand ends the program instead
	err = store.Update(ctx, func(tx Tx) (err error) {
		if secret, err = tx.FeedbackSecret(); !errors.Is(err, ErrNotFound) {
			return err
		}
		secret = fresh
		return tx.PutFeedbackSecret(fresh)
	})
	if err != nil {
		return FeedbackSecret{}, err
	}
	return secret, nil
}

// FeedbackPreset returns the ids of a preset, of any status, and of its workspace. Every key
// that reaches the preset may give feedback.
func (s *Service) FeedbackPreset(ctx context.Context, who Principal, workspace, slug string) (workspaceID, presetID string, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		p, err := presetOf(r, who, workspace, slug)
		workspaceID, presetID = p.WorkspaceID, p.ID
		return err
	})
	return workspaceID, presetID, err
}
