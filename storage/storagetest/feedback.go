package storagetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// feedbackSecret stores the secret for handles of feedback, once.
func feedbackSecret(t *testing.T, s *suite) {
	first, second := domain.FeedbackSecret{1, 2, 3}, domain.FeedbackSecret{9}
	read := func(r domain.Reader) (domain.FeedbackSecret, error) { return r.FeedbackSecret() }
	wantNotFound(t, "a secret that was never stored")(get(s, read))
	failed := errors.New("failed")
	if err := s.update(func(tx domain.Tx) error { return errors.Join(tx.PutFeedbackSecret(second), failed) }); !errors.Is(err, failed) {
		t.Errorf("a failed update: got error %v", err)
	}
	wantNotFound(t, "the secret of a failed update")(get(s, read))
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := tx.PutFeedbackSecret(first)
		wantValue(t, first)(tx.FeedbackSecret())
		return err
	})
	if err := s.update(func(tx domain.Tx) error { return tx.PutFeedbackSecret(second) }); !errors.Is(err, domain.ErrTaken) {
		t.Errorf("another secret: got error %v, want ErrTaken", err)
	}
	s.checkAcrossReopen(t, func(r domain.Reader) { wantValue(t, first)(r.FeedbackSecret()) })
	wantValue(t, first)(usage.EnsureFeedbackSecret(t.Context(), s))
}

// feedbackSecretManyWriters makes the secret at the same time.
func feedbackSecretManyWriters(t *testing.T, s *suite) {
	var secrets [writers]domain.FeedbackSecret
	var errs [writers]error
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() { secrets[i], errs[i] = usage.EnsureFeedbackSecret(t.Context(), s) })
	}
	wait.Wait()
	stored, err := get(s, func(r domain.Reader) (domain.FeedbackSecret, error) { return r.FeedbackSecret() })
	if err != nil || stored == (domain.FeedbackSecret{}) {
		t.Fatalf("got no secret, error %v", err)
	}
	for i := range writers {
		if errs[i] != nil || secrets[i] != stored {
			t.Errorf("writer %d: got error %v, or another secret than the stored one", i, errs[i])
		}
	}
}
