package registry

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// retryInterval is the pause between two attempts to store revocations.
const retryInterval = time.Second

// RetryRevocations stores the revocations that RevokeKey could not store, in the background and until
// the context of Gone ends. The log has a message when they are stored.
func (s *Store) RetryRevocations() { s.retry.Do(func() { go s.retryRevocations() }) }

func (s *Store) retryRevocations() {
	log := caddy.Log().Named("admin.api.presets").With(zap.String("store", s.name))
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	var left []string
	for {
		select {
		case <-s.gone.Done():
			if len(left) > 0 {
				log.Error("the revocations of keys were not stored: these keys are valid again once the store is in use", zap.Strings("keys", left))
			}
			return
		case <-ticker.C:
		}
		use := s.Newest()
		if use == nil {
			continue // the context is about to end
		}
		var stored []string
		if stored, left = use.Service.StoreRevocations(s.gone); len(stored) > 0 {
			log.Warn("the revocations of keys are stored now", zap.Strings("keys", stored))
		}
	}
}
