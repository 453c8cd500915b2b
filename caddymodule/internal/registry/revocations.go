package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// retryInterval is the pause between two attempts to store revocations.
const retryInterval = time.Second

// RevokeKey is that of a service of the store. A revocation that cannot be stored is stored later, in
// the background and until the context of Gone ends. The log has a message about both.
func (s *Store) RevokeKey(ctx context.Context, service *domain.Service, w domain.Write, ref string) (domain.Key, error) {
	k, err := service.RevokeKey(ctx, w, ref)
	if errors.Is(err, domain.ErrRevocationNotStored) {
		s.retry.Do(func() { go s.retryRevocations() })
		s.log().Error("a key is revoked in memory alone, until the store takes its revocation", zap.String("key", k.ID), zap.Error(err))
		err = fmt.Errorf("%w; the server tries again each second, and a restart before it succeeds makes the key valid again", err)
	}
	return k, err
}

func (s *Store) log() *zap.Logger {
	return caddy.Log().Named("admin.api.presets").With(zap.String("store", s.name))
}

func (s *Store) retryRevocations() {
	log := s.log()
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
