package admin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
)

// server is a test server with methods for this package's tests.
type server struct{ *caddytest.Server }

func start(t *testing.T, subdirectives string) *server {
	t.Helper()
	return &server{caddytest.Start(t, subdirectives)}
}

func run(args ...string) (out, errOut string, err error) { return admin.Run(args...) }

var (
	operator = admin.Operator

	times   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
)

// use returns how the newest handler uses the only live store.
func use() *registry.Use {
	for _, store := range registry.All() {
		return store.Newest()
	}
	panic("no store is live")
}

// versions makes a preset's next versions. Each version's model has its number.
func (s *server) versions(path string, from, to int) {
	s.T.Helper()
	for n := from; n <= to; n++ {
		s.Manage("POST", path, fmt.Sprintf(`{"model":"m%d"}`, n)).Want(s.T, 200, fmt.Sprintf(`"version":%d,`, n))
	}
}

// fillStore stores presets of so many bytes in total. They do not compress.
func (s *server) fillStore(bytes int) {
	s.T.Helper()
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 100<<10)
	for n := 0; n < bytes; n += 200 << 10 {
		_, _ = random.Read(noise)
		config, err := json.Marshal(map[string]string{"model": fmt.Sprintf("%x", noise)})
		if err != nil {
			s.T.Fatal(err)
		}
		if _, err := use().Service.CreatePresetVersion(s.T.Context(), operator, "", "large", domain.Capture{Dialect: domain.Chat, Config: config}); err != nil {
			s.T.Fatal(err)
		}
	}
}
