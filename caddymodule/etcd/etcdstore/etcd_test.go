package etcdstore

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestStore(t *testing.T) {
	needed(t)
	storagetest.Run(t, func(t *testing.T, place string) storagetest.Store {
		s, err := Open(t.Context(), Options{Endpoints: []string{sharedAddress(t)}, Prefix: fmt.Sprintf("%x/", sha256.Sum256([]byte(place))), RequestTimeout: wait.Limit})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
