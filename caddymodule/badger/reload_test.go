package badger_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/badger"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestRejectedConfigurationKeepsTheHandle(t *testing.T) {
	s := caddytest.Start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	for name, sites := range map[string]string{
		"bad key":         s.Site("management_key {env.PRESETS_TEST_NOT_SET}"),
		"other folder":    s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key {env.PRESETS_TEST_NOT_SET}\n}", filepath.Join(t.TempDir(), "x"))),
		"port in use":     s.Site(caddytest.Standard) + "http://:" + portOf(s.Upstream.Listener.Addr().String()) + " {\nbind 127.0.0.1\nrespond ok\n}",
		"file for folder": s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s\n}", s.LogFile)),
		"second site bad": s.Site(caddytest.Standard) + s.SiteAt(caddytest.Address(t), fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key {env.PRESETS_TEST_NOT_SET}\n}", s.Folder)),
	} {
		if err := s.Load(sites); err == nil {
			t.Errorf("%s: the configuration is accepted", name)
		}
		s.Manage("GET", "/v1/workspaces/team", "").Want(t, 200)
		s.Manage("POST", "/v1/presets/p/responses", "{}").Want(t, 200)
		if got := badger.Shares(); !slices.Equal(got, []int{1}) {
			t.Errorf("%s: got handles that are shared by %v, want one by one", name, got)
		}
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// TestReloadsUnderLoad reloads the configuration in every way while clients write. No
// acknowledged write is lost, no client gets an error, and no handle leaks.
func TestReloadsUnderLoad(t *testing.T) {
	s := caddytest.Start(t, caddytest.Standard)
	other := filepath.Join(t.TempDir(), "other")
	second := caddytest.Address(t)
	same := s.Site(caddytest.Standard)
	elsewhere := s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, caddytest.Standard))
	two := same + s.SiteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.Folder, caddytest.Standard))
	rejected := s.Site("management_key {env.PRESETS_TEST_NOT_SET}")

	var (
		wg      sync.WaitGroup
		stop    atomic.Bool
		written atomic.Int64
		dropped atomic.Int64
	)
	const clients = 8
	acknowledged := make([][]string, clients)
	for i := range clients {
		wg.Go(func() {
			client := caddytest.Client(s.Address)
			for n := 0; !stop.Load(); n++ {
				slug := fmt.Sprintf("w-%d-%d", i, n)
				r, _ := http.NewRequest("POST", "http://127.0.0.1/v1/workspaces", strings.NewReader(fmt.Sprintf(`{"name":"n","slug":%q}`, slug)))
				r.Header.Set("Authorization", "Bearer "+caddytest.ManagementSecret)
				answer, err := client.Do(r)
				if err != nil {
					dropped.Add(1) // Caddy itself drops some connections in a reload
					continue
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusCreated {
					t.Errorf("got %d %s, want 201", answer.StatusCode, body)
					return
				}
				acknowledged[i] = append(acknowledged[i], slug)
				written.Add(1)
			}
		})
	}
	meanwhile := int64(0) // were written
	rounds := 2
	if tier.EveryCase() {
		rounds = 6
	}
	for round := range rounds {
		for _, sites := range []string{same, two, elsewhere, same, rejected} {
			before := written.Load()
			if err := s.Load(sites); (err != nil) != (sites == rejected) {
				t.Errorf("round %d: %v", round, err)
			}
			meanwhile += written.Load() - before
			before = written.Load()
			if !wait.Eventually(func() bool { return written.Load() >= before+clients }) {
				t.Errorf("round %d: no writes are acknowledged any more", round)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d writes acknowledged, of which %d during reloads, %d connections dropped", written.Load(), meanwhile, dropped.Load())
	if meanwhile == 0 {
		t.Error("nothing was written during reloads")
	}

	// Every acknowledged workspace is in one of the two folders.
	if err := s.Load(same + s.SiteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, caddytest.Standard))); err != nil {
		t.Fatal(err)
	}
	for _, slugs := range acknowledged {
		for _, slug := range slugs {
			here := s.Manage("GET", "/v1/workspaces/"+slug, "")
			if here.Status == 404 {
				here = caddytest.Send(t, second, "GET", "/v1/workspaces/"+slug, "", caddytest.Bearer(caddytest.ManagementSecret))
			}
			if here.Status != 200 {
				t.Fatalf("workspace %s was acknowledged and is lost: %d", slug, here.Status)
			}
		}
	}
	if n := len(badger.Shares()); n != 2 {
		t.Errorf("got %d open handles, want 2", n)
	}
	s.Stop()
	if !wait.Eventually(func() bool { return len(badger.Shares()) == 0 }) {
		t.Errorf("got %d open handles after the end, want none", len(badger.Shares()))
	}
}

// TestRequestInFlight checks that a pending request keeps its folder until it is answered.
// This holds if the new configuration uses another folder, or uses the folder again.
func TestRequestInFlight(t *testing.T) {
	for name, back := range map[string]bool{"folder given up": false, "folder taken again": true} {
		t.Run(name, func(t *testing.T) {
			s := caddytest.Start(t, caddytest.Standard)
			conn, err := caddytest.Dial(t.Context(), s.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := `{"model":"late"}`
			fmt.Fprintf(conn, "POST /v1/presets/late/responses HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", caddytest.Bearer(caddytest.ManagementSecret), len(body), body[:5])
			waits := func() bool { // for the rest of the request's body
				stacks := make([]byte, 4<<20)
				return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("caddymodule.(*call).read("))
			}
			if !wait.Eventually(waits) {
				t.Fatal("the request is not under way")
			}

			elsewhere := s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", caddytest.Folder(t), caddytest.Standard))
			if err := s.Load(elsewhere); err != nil {
				t.Fatal(err)
			}
			if back {
				if err := s.Load(s.Site(caddytest.Standard)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.WriteString(conn, body[5:]); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			caddytest.ReadResponse(t, answer).Want(t, 200, `"version":1`)
			if !wait.Eventually(func() bool { return len(badger.Shares()) == 1 }) {
				t.Errorf("got %d open handles, want one", len(badger.Shares()))
			}
			if err := s.Load(s.Site(caddytest.Standard)); err != nil {
				t.Fatal(err)
			}
			s.Manage("POST", "/v1/presets/late/responses", "{}").Want(t, 200, `"version":2`)
		})
	}
}

func TestTwoWaysToNameAFolderAreOneHandle(t *testing.T) {
	s := caddytest.Start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.Folder, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{s.Folder + "/../store/", link, link + "/."} {
		second := caddytest.Address(t)
		if err := s.Load(s.Site(caddytest.Standard) + s.SiteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, caddytest.Standard))); err != nil {
			t.Fatalf("%s: %v", other, err)
		}
		caddytest.Send(t, second, "GET", "/v1/workspaces/team", "", caddytest.Bearer(caddytest.ManagementSecret)).Want(t, 200)
		if n := len(badger.Shares()); n != 1 {
			t.Errorf("%s: got %d handles, want one", other, n)
		}
	}
}
