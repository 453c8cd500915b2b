//go:build faults

package faults

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// sendAdmin sends a request to the admin endpoint.
func (s *server) sendAdmin(method, path, mediaType, body string) (answer, error) {
	s.waitOldListenersClosed(s.admin)
	r, err := http.NewRequest(method, "http://"+s.admin+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	// It uses a new connection, so that no idle one counts as the server's.
	r.Close = true
	return s.do(r)
}

// load makes a Caddyfile the configuration, as caddy reload does.
func (s *server) load(caddyfile string) (answer, error) {
	return s.sendAdmin(http.MethodPost, "/load", "text/caddyfile", caddyfile)
}

// reload is load for valid configurations. It fails the test if Caddy refuses one.
func (s *server) reload(caddyfile string) {
	s.t.Helper()
	if a, err := s.load(caddyfile); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("a reload gives %s, %v", a, err)
	}
}

// waitOldListenersClosed waits until only the current configuration listens on an address.
// Caddy closes the listeners of replaced or rejected configurations in the background. Until
// then they accept connections and may reset them. On systems other than Linux it does not
// wait.
func (s *server) waitOldListenersClosed(address string) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(address)
	number, err := strconv.Atoi(port)
	if err != nil {
		s.t.Fatal(err)
	}
	listening := fmt.Sprintf(" 0100007F:%04X 00000000:0000 0A ", number)
	wait.Until(s.t, "an old listener is still open", func() bool {
		table, err := os.ReadFile("/proc/net/tcp")
		return err != nil || strings.Count(string(table), listening) <= 1
	})
}

// footprint is the resources of a process.
type footprint struct {
	fds, goroutines int   // fds without the store's files
	heap            int64 // bytes of objects after a collection, without the gaps between them
	rss, anonymous  int64 // bytes of memory: all, and without pages of files
}

func (f footprint) String() string {
	return fmt.Sprintf("%d fds, %d goroutines, heap %.1f MiB, RSS %.1f MiB, of which anonymous %.1f MiB",
		f.fds, f.goroutines, mib(f.heap), mib(f.rss), mib(f.anonymous))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

var (
	goroutinesTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapAllocated   = regexp.MustCompile(`# HeapAlloc = (\d+)`)
	residentPages   = regexp.MustCompile(`(VmRSS|RssAnon):\s*(\d+) kB`)
)

// footprint measures the process. Files of the store do not count, since a store that grows
// has more of them. Files that the store has removed do. It needs Linux.
func (s *server) footprint() footprint {
	s.t.Helper()
	s.client.CloseIdleConnections()
	read := func(path string, figure *regexp.Regexp) int64 {
		a, err := s.sendAdmin(http.MethodGet, path, "", "")
		if err != nil || a.status != http.StatusOK {
			s.t.Fatalf("%s gives %s, %v", path, a, err)
		}
		found := figure.FindSubmatch(a.body)
		if found == nil {
			s.t.Fatalf("%s has no %s", path, figure)
		}
		n, _ := strconv.ParseInt(string(found[1]), 10, 64)
		return n
	}
	proc := filepath.Join("/proc", strconv.Itoa(s.process.ID()))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		servertest.Lack(s.t, "proc", "there is no /proc with the server's open files: %v", err)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		servertest.Lack(s.t, "proc", "there is no /proc with the server's memory: %v", err)
	}
	f := footprint{}
	for _, fd := range fds {
		name, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if inStore := strings.HasPrefix(name, s.store+"/") && !strings.HasSuffix(name, " (deleted)"); err == nil && !inStore {
			f.fds++
		}
	}
	for _, m := range residentPages.FindAllSubmatch(status, -1) {
		kb, _ := strconv.ParseInt(string(m[2]), 10, 64)
		if string(m[1]) == "VmRSS" {
			f.rss = kb << 10
		} else {
			f.anonymous = kb << 10
		}
	}
	// The second collection frees objects whose finalizers ran after the first.
	read("/debug/pprof/heap?gc=1&debug=1", heapAllocated)
	f.heap = read("/debug/pprof/heap?gc=1&debug=1", heapAllocated)
	f.goroutines = int(read("/debug/pprof/goroutine?debug=1", goroutinesTotal))
	return f
}

// settledFootprint returns the footprint once it is enough, or after a limit. Connections
// and replaced configurations are released after a moment.
func (s *server) settledFootprint(within time.Duration, enough func(footprint) bool) (f footprint) {
	for late := time.Now().Add(within); ; time.Sleep(250 * time.Millisecond) {
		if f = s.footprint(); enough(f) || time.Now().After(late) {
			return f
		}
	}
}

// hasNotGrown reports whether got exceeds was by at most a share of it. Small numbers may
// grow by one.
func hasNotGrown(got, was int64, share float64) bool {
	return got <= was+max(1, int64(share*float64(was)))
}

// lockOf is the file that a store writes at each opening and each close.
func lockOf(folder string) string { return filepath.Join(folder, "STORE-LOCK") }

// storeLock identifies the current opening of a store.
func storeLock(t *testing.T, folder string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(lockOf(folder))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// sameOpening reports whether a store was not closed between two calls of
// storeLock.
func sameOpening(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
