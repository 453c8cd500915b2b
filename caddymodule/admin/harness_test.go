package admin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
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

// run runs a command that calls the server's admin endpoint.
func (s *server) run(args ...string) (out, note string, err error) {
	return run(append(args, "--address", s.AdminAddress)...)
}

// must runs a command that succeeds.
func must(t *testing.T, args ...string) (out, note string) {
	t.Helper()
	out, note, err := run(args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, note)
	}
	return out, note
}

// must is run of a command that succeeds.
func (s *server) must(args ...string) (out, note string) {
	s.T.Helper()
	return must(s.T, append(args, "--address", s.AdminAddress)...)
}

// refuses runs commands that fail, each with a text in its error, and print nothing.
func refuses(t *testing.T, commands map[string][]string, first ...string) {
	t.Helper()
	for says, args := range commands {
		if out, _, err := run(slices.Concat(first, args)...); err == nil || out != "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %q, %v, want an error with %q", args, out, err, says)
		}
	}
}

// refuses is refuses of commands that call the server's admin endpoint.
func (s *server) refuses(commands map[string][]string, first ...string) {
	s.T.Helper()
	refuses(s.T, commands, append(first, "--address", s.AdminAddress)...)
}

// load serves the store in a folder, with the file of its key or none.
func (s *server) load(folder, key string) {
	s.T.Helper()
	if err := s.Load(s.Encrypted(s.Address, folder, key)); err != nil {
		s.T.Fatal(err)
	}
}

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
		if _, err := use().Service.ReleasePresetVersion(s.T.Context(), operator, "", "large", domain.Capture{Dialect: domain.Chat, Config: config}, domain.Release{}); err != nil {
			s.T.Fatal(err)
		}
	}
}
