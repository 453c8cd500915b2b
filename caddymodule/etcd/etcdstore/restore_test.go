package etcdstore

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// backUp writes a backup of the member to a file.
func (m *member) backUp(t *testing.T, name string) {
	t.Helper()
	from, err := client(t, m.address).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
}

// restore stops the member and starts it with a backup's data.
func (m *member) restore(t *testing.T, name string, options ...string) {
	t.Helper()
	m.kill()
	data := filepath.Join(t.TempDir(), "restored")
	args := []string{"snapshot", "restore", name, "--data-dir", data}
	for i, arg := range m.args {
		switch arg {
		case "--name", "--initial-advertise-peer-urls", "--initial-cluster":
			args = append(args, arg, m.args[i+1])
		case "--data-dir":
			m.args[i+1] = data
		}
	}
	if out, err := exec.Command(restorer(), append(args, options...)...).CombinedOutput(); err != nil {
		t.Fatalf("restoring: %v\n%s", err, out)
	}
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
}

// restorer returns the program that restores a backup: the etcdctl beside an etcd before 3.5, as in Debian 12,
// or caddymodule/etcd/testserver, which does it as etcdutl does.
func restorer() string {
	if beside := filepath.Join(filepath.Dir(program), "etcdctl"); exec.Command(beside, "version").Run() == nil {
		return beside
	}
	return program
}

// restorable skips a test where etcd cannot restore a backup with these options.
func restorable(t *testing.T, options []string) {
	t.Helper()
	needed(t)
	help, err := exec.Command(restorer(), "snapshot", "restore", "--help").CombinedOutput()
	if err != nil || len(options) > 0 && !strings.Contains(string(help), options[0]) {
		t.Skipf("SKIPPED: this etcd cannot restore a backup with %q, as caddymodule/etcd/testserver can", options)
	}
}

// bumped are the options for a restore that etcd's manual recommends.
var bumped = []string{"--bump-revision", "1000000", "--mark-compacted"}

// TestRestored restores a cluster from a backup while stores are open. It does so with and
// without the manual's option that increases the revision. A disconnected store finds at
// least as many commits from others. Some have the number and revision of commits that it
// knows and that were lost.
func TestRestored(t *testing.T) {
	restorable(t, nil)
	const lost = 3
	for _, test := range []struct {
		name    string
		options []string
		since   int // commits made before the store is reconnected
		first   string
		foreign int // changes of foreign keys after the backup
	}{
		{"plain, reading", nil, 0, "read", 0},
		{"plain, writing", nil, 0, "write", 0},
		{"plain, one commit less", nil, lost - 1, "read", 0},
		{"plain, as many commits, writing", nil, lost, "write", 0},
		{"plain, as many commits, reading", nil, lost, "read", 0},
		{"plain, one commit more", nil, lost + 1, "read", 0},
		{"plain, one commit more, writing", nil, lost + 1, "write", 0},
		{"plain, some commits more", nil, lost + 2, "read", 10},
		{"bumped", bumped, 0, "read", 0},
		{"bumped, as many commits, writing", bumped, lost, "write", 0},
		{"bumped, one commit more", bumped, lost + 1, "read", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			restorable(t, test.options)
			t.Parallel()
			m := cluster(t, 1)[0]
			p := newProxy(t, m.address)
			// With the long MaxStaleness no periodic check detects the restore.
			s := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Minute})
			w := newID()
			put(t, s, w, "p")
			want := []string{"kept"}
			if _, err := add(t.Context(), s, w, "p", "kept"); err != nil {
				t.Fatal(err)
			}
			backup := filepath.Join(t.TempDir(), "backup")
			m.backUp(t, backup)
			for range lost {
				if _, err := add(t.Context(), s, w, "p", "lost"); err != nil {
					t.Fatal(err)
				}
			}
			if got := len(versions(t, s, w, "p")); got != 1+lost { // in memory
				t.Fatalf("got %d versions", got)
			}
			for range test.foreign {
				response, err := client(t, m.address).Put(t.Context(), prefix(t)+"foreign", "x")
				if err != nil {
					t.Fatal(err)
				}
				wait.Until(t, "the watch tells", func() bool { return s.watcher.at.Load() >= response.Header.Revision })
			}
			stamp := s.Stamps().Preset(w, "p")
			p.setCut(true)
			m.restore(t, backup, test.options...)
			other := open(t, Options{Endpoints: []string{m.address}})
			for range test.since {
				want = append(want, "other")
				if _, err := add(t.Context(), other, w, "p", "other"); err != nil {
					t.Fatal(err)
				}
			}
			p.setCut(false)
			p.renew()
			took := wait.Until(t, "it is served", func() bool {
				if test.first == "write" {
					_, err := add(t.Context(), s, w, "p", "own")
					return err == nil
				}
				var got int
				err := s.View(t.Context(), func(r domain.Reader) error {
					preset, err := r.Preset(w, "p")
					got = preset.LatestVersion
					return err
				})
				if err == nil && got != len(want) {
					t.Fatalf("got version %d as the latest, want %d", got, len(want))
				}
				return err == nil
			})
			if test.first == "read" {
				if _, err := add(t.Context(), s, w, "p", "own"); err != nil {
					t.Error(err)
				}
			}
			want = append(want, "own")
			for i, s := range []*Store{s, other, open(t, Options{Endpoints: []string{m.address}})} {
				if got := versions(t, s, w, "p"); !slices.Equal(got, want) {
					t.Errorf("store %d: got versions %q, want %q", i, got, want)
				}
			}
			if got := s.Stamps().Preset(w, "p"); got == stamp || s.Status().Resets == 0 {
				t.Errorf("got stamp %d, it was %d before; %d resets", got, stamp, s.Status().Resets)
			}
			t.Logf("RESULT restored, %s: served after %v", test.name, took)
		})
	}
}

// viewed counts the reads of a store.
type viewed struct {
	*Store
	views atomic.Int64
}

func (s *viewed) View(ctx context.Context, fn func(domain.Reader) error) error {
	s.views.Add(1)
	return s.Store.View(ctx, fn)
}

// TestLostVersions replaces the cluster's data by an earlier state while a node is running.
// A version stored later gets a number that was used before. The node serves the new
// version, not the lost one.
func TestLostVersions(t *testing.T) {
	for name, save := range map[string]func(t *testing.T, m *member, s *Store) (restore func()){
		"a snapshot": func(t *testing.T, m *member, _ *Store) func() {
			restorable(t, bumped)
			backup := filepath.Join(t.TempDir(), "backup")
			m.backUp(t, backup)
			return func() { m.restore(t, backup, bumped...) }
		},
		"a dump": func(t *testing.T, m *member, s *Store) func() {
			content, _ := dumped(t, s)
			return func() {
				if _, err := client(t, m.address).Delete(t.Context(), prefix(t), clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
				if err := Restore(t.Context(), Options{Endpoints: []string{m.address}, Prefix: prefix(t)}, reader(t, content)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := cluster(t, 1)[0]
			s := &viewed{Store: open(t, Options{Endpoints: []string{m.address}})}
			service := domain.NewService(s)
			if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
				t.Fatal(err)
			}
			resolver := inference.NewResolver(s, inference.Config{})
			by := domain.By(domain.Principal{KeyID: "k", UserID: "ann", Kind: domain.ManagementKey})
			store := func(model string, want int) {
				t.Helper()
				wait.Until(t, "a version is stored", func() bool {
					out, err := service.ReleasePresetVersion(t.Context(), by, "", "p", domain.Capture{
						Dialect: domain.Responses, Config: []byte(`{"model":"` + model + `"}`),
					}, domain.Release{})

					if err != nil && !errors.Is(err, domain.ErrUnavailable) || err == nil && out.Number != want {
						t.Fatalf("got version %d, %v, want version %d", out.Number, err, want)
					}
					return err == nil
				})
			}
			// serves waits until a reference is served from memory, where it has to give a model.
			serves := func(ref, want string) {
				t.Helper()
				wait.Until(t, ref+" is served from memory", func() bool {
					before := s.views.Load()
					got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: []byte(`{"model":"` + ref + `"}`)})
					if err == nil && got.Body.String() != `{"model":"`+want+`"}` {
						t.Fatalf("%s: got %s, want the model %s", ref, got.Body, want)
					}
					return err == nil && s.views.Load() == before
				})
			}
			store("one", 1)
			restore := save(t, m, s.Store)
			store("two", 2)
			serves("@preset/p", "two")
			serves("@preset/p@2", "two")
			restore()
			wait.Until(t, "all is read again", func() bool { return s.Status().Resets > 0 })
			serves("@preset/p", "one")
			store("new", 2)
			serves("@preset/p", "new")
			serves("@preset/p@2", "new")
		})
	}
}

// TestRestoreForgetsExpired checks that records which have expired do not wait in memory.
func TestRestoreForgetsExpired(t *testing.T) {
	r := &restore{Store: &Store{}, ctx: t.Context(), waiting: []records.Write{{Key: records.Key("k"), Expires: 1}}, size: 1}
	if err := r.flush(); err != nil || len(r.waiting) > 0 || r.size > 0 {
		t.Errorf("got %v, and %d records of %d bytes wait, want none", err, len(r.waiting), r.size)
	}
}
