package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
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
)

// handles returns how many handles on folders are open.
func handles() int { return len(folders.InUse()) }

func TestRejectedConfigurationKeepsTheHandle(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	for name, sites := range map[string]string{
		"bad key":         s.site("management_key {env.PRESETS_TEST_NOT_SET}"),
		"other folder":    s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key {env.PRESETS_TEST_NOT_SET}\n}", filepath.Join(t.TempDir(), "x"))),
		"port in use":     s.site(standard) + "http://:" + portOf(s.upstream.Listener.Addr().String()) + " {\nbind 127.0.0.1\nrespond ok\n}",
		"file for folder": s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s\n}", s.logFile)),
		"second site bad": s.site(standard) + s.siteAt(freeAddress(t), fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key {env.PRESETS_TEST_NOT_SET}\n}", s.folder)),
	} {
		if err := s.load(sites); err == nil {
			t.Errorf("%s: the configuration is accepted", name)
		}
		s.manage("GET", "/v1/workspaces/team", "").want(t, 200)
		s.manage("POST", "/v1/presets/p/responses", "{}").want(t, 200)
		if got := slices.Collect(maps.Values(folders.InUse())); !slices.Equal(got, []int{1}) {
			t.Errorf("%s: got handles that are shared by %v, want one by one", name, got)
		}
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// Clients write while the configuration changes in every way; nothing that was
// acknowledged is lost, nobody gets an error, and no handle is left over.
func TestReloadsUnderLoad(t *testing.T) {
	s := start(t, standard)
	other := filepath.Join(t.TempDir(), "other")
	second := freeAddress(t)
	same := s.site(standard)
	elsewhere := s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, standard))
	two := same + s.siteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.folder, standard))
	rejected := s.site("management_key {env.PRESETS_TEST_NOT_SET}")

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
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; !stop.Load(); n++ {
				slug := fmt.Sprintf("w-%d-%d", i, n)
				r, _ := http.NewRequest("POST", s.url+"/v1/workspaces", strings.NewReader(fmt.Sprintf(`{"name":"n","slug":%q}`, slug)))
				r.Header.Set("Authorization", "Bearer "+managementSecret)
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
	for round := range 6 {
		for _, sites := range []string{same, two, elsewhere, same, rejected} {
			before := written.Load()
			if err := s.load(sites); (err != nil) != (sites == rejected) {
				t.Errorf("round %d: %v", round, err)
			}
			meanwhile += written.Load() - before
			before = written.Load()
			if !s.eventually(func() bool { return written.Load() >= before+clients }) {
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
	if err := s.load(same + s.siteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, standard))); err != nil {
		t.Fatal(err)
	}
	for _, slugs := range acknowledged {
		for _, slug := range slugs {
			here := s.manage("GET", "/v1/workspaces/"+slug, "")
			if here.status == 404 {
				here = send(t, "GET", "http://"+second+"/v1/workspaces/"+slug, "", bearer(managementSecret))
			}
			if here.status != 200 {
				t.Fatalf("workspace %s was acknowledged and is lost: %d", slug, here.status)
			}
		}
	}
	if n := handles(); n != 2 {
		t.Errorf("got %d open handles, want 2", n)
	}
	s.stop()
	if !s.eventually(func() bool { return handles() == 0 }) {
		t.Errorf("got %d open handles after the end, want none", handles())
	}
}

// A request that was under way keeps its folder until it is answered, also
// when the new configuration uses another, and may come back meanwhile.
func TestRequestInFlight(t *testing.T) {
	for name, back := range map[string]bool{"folder given up": false, "folder taken again": true} {
		t.Run(name, func(t *testing.T) {
			s := start(t, standard)
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := `{"model":"late"}`
			fmt.Fprintf(conn, "POST /v1/presets/late/responses HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", bearer(managementSecret), len(body), body[:5])
			waits := func() bool { // for the rest of its body
				stacks := make([]byte, 4<<20)
				return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("caddymodule.(*call).read("))
			}
			if !s.eventually(waits) {
				t.Fatal("the request is not under way")
			}

			elsewhere := s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", storeFolder(t), standard))
			if err := s.load(elsewhere); err != nil {
				t.Fatal(err)
			}
			if back {
				if err := s.load(s.site(standard)); err != nil {
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
			readResponse(t, answer).want(t, 200, `"version":1`)
			if !s.eventually(func() bool { return handles() == 1 }) {
				t.Errorf("got %d open handles, want one", handles())
			}
			if err := s.load(s.site(standard)); err != nil {
				t.Fatal(err)
			}
			s.manage("POST", "/v1/presets/late/responses", "{}").want(t, 200, `"version":2`)
		})
	}
}

func TestTwoWaysToNameAFolderAreOneHandle(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.folder, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{s.folder + "/../store/", link, link + "/."} {
		second := freeAddress(t)
		if err := s.load(s.site(standard) + s.siteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", other, standard))); err != nil {
			t.Fatalf("%s: %v", other, err)
		}
		send(t, "GET", "http://"+second+"/v1/workspaces/team", "", bearer(managementSecret)).want(t, 200)
		if n := handles(); n != 1 {
			t.Errorf("%s: got %d handles, want one", other, n)
		}
	}
}

func TestBareDirective(t *testing.T) {
	s := start(t, standard)
	if err := s.load(s.siteAt(s.address, "presets")); err != nil {
		t.Fatal(err)
	}
	k := s.issue(`{"kind":"management"}`)
	s.do("GET", "/v1/workspaces/default", "", bearer(k.secret)).want(t, 200, `"name":"Default"`)
}

// What resolved presets take is freed with the configuration that they were
// resolved for.
func TestReloadsFreeResolvedPresets(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	caches := func() int { // the store has some of its own
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "ristretto/v2.(*Cache[...]).processItems(")
	}
	before := caches()
	for range 5 {
		s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 202)
		s.reload(inferring())
	}
	if !s.eventually(func() bool { return caches() <= before }) {
		t.Errorf("got %d caches after five reloads, and %d before", caches(), before)
	}
	s.reload(standard)
	if !s.eventually(func() bool { return caches() < before }) {
		t.Error("the cache outlives its configuration")
	}
}
