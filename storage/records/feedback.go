package records

import (
	"errors"
	"fmt"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A record of KindFeedback is the secret alone.

func feedbackKey() Key { return newKey(KindFeedback, 0) }

func decodeFeedbackSecret(payload []byte) (secret domain.FeedbackSecret, err error) {
	if len(payload) != len(secret) {
		return secret, errLength
	}
	return domain.FeedbackSecret(payload), nil
}

// FeedbackSecret implements domain.Reader.
func (r *Reader) FeedbackSecret() (domain.FeedbackSecret, error) {
	return load(r, feedbackKey(), decodeFeedbackSecret)
}

// PutFeedbackSecret implements domain.Tx.
func (t *Tx) PutFeedbackSecret(secret domain.FeedbackSecret) error {
	k := feedbackKey()
	_, err := load(&t.Reader, k, decodeFeedbackSecret)
	switch {
	case err == nil:
		err = fmt.Errorf("%w: the store has a %v", domain.ErrTaken, KindFeedback)
	case errors.Is(err, domain.ErrNotFound):
		err = nil
	}
	return t.write(k, Seal(k, secret[:]), err)
}
