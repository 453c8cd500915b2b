//go:build faults

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestSmallContainer runs a server in a container of 128 MiB with its default settings. It has
// 1,000 presets. The largest bodies wait at a gateway that stalls, as many as the server takes.
// Small requests, reads and new versions follow. The system must not kill the process.
func TestSmallContainer(t *testing.T) {
	tier.Long(t)
	const memory, presets, large, clients = 128 << 20, 1000, 30, 16
	begun := time.Now()
	gateway := newStalling(t)
	var system syscall.Statfs_t
	if err := syscall.Statfs(t.TempDir(), &system); err != nil {
		t.Fatal(err)
	}
	if system.Type == tmpfs {
		servertest.Lack(t, "disk", "the temporary folder is in memory: a store there counts as memory. TMPDIR names another")
	}
	group := newMemoryGroup(t, memory)
	s := newServer(t, options{
		binary: group.wrap(t, servertest.Caddy(t)), gateway: "reverse_proxy " + gateway.address,
		presets: "inference {\nusage\n}\nconsole",
	})
	s.mustStart()

	// each calls do for the numbers below n, from several goroutines.
	each := func(n int, do func(i int) error) {
		t.Helper()
		var group sync.WaitGroup
		var next atomic.Int64
		for range clients {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
					if err := do(i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	// expect sends a request, and wants one of the statuses.
	expect := func(method, path, body, key string, statuses ...int) (int, error) {
		a, err := s.send(method, path, body, "Authorization", "Bearer "+key)
		if err != nil {
			return 0, err
		}
		if slices.Contains(statuses, a.status) {
			return a.status, nil
		}
		return a.status, fmt.Errorf("%s %s: got %v, want %v", method, path, a, statuses)
	}
	preset := func(i int) string { return fmt.Sprintf("p%d", i%presets) }
	store := func(i int) error {
		_, err := expect(http.MethodPost, "/v1/presets/"+preset(i)+"/chat/completions",
			fmt.Sprintf(`{"model":"m%d","messages":[{"role":"system","content":%q}]}`, i, strings.Repeat("Be brief. ", 100)), managementKey, http.StatusOK)
		return err
	}
	request := func(i, size int) string {
		return fmt.Sprintf(`{"model":"@preset/%s","messages":[{"role":"user","content":%q}]}`, preset(i), strings.Repeat("x", size))
	}
	each(presets, store)

	// A sixteenth of Go's memory limit, which is nine tenths of the container's memory.
	const largest = 7 << 20
	if _, err := expect(http.MethodPost, "/v1/chat/completions", request(0, largest), inferenceKey, http.StatusRequestEntityTooLarge); err != nil {
		t.Fatal(err)
	}
	gateway.stall()
	var bodies [large]string
	for i := range bodies {
		bodies[i] = request(i, largest-1024)
	}
	var passed, refused, failed atomic.Int64
	var waiting sync.WaitGroup
	for _, body := range bodies {
		waiting.Go(func() {
			status, err := expect(http.MethodPost, "/v1/chat/completions", body, inferenceKey, http.StatusOK, http.StatusServiceUnavailable)
			switch {
			case err != nil:
				t.Error(err)
				failed.Add(1)
			case status == http.StatusOK:
				passed.Add(1)
			default:
				refused.Add(1)
			}
		})
	}
	wait.Until(t, "all large requests are refused or at the gateway", func() bool {
		return failed.Load() > 0 || refused.Load()+gateway.waiting.Load() == large
	})
	each(2*presets, func(i int) error { // beside them
		if i%10 == 0 {
			return store(i)
		}
		_, err := expect(http.MethodGet, "/v1/presets/"+preset(i), "", managementKey, http.StatusOK)
		return err
	})
	gateway.continueReading()
	waiting.Wait()
	each(10*presets, func(i int) error {
		_, err := expect(http.MethodPost, "/v1/chat/completions", request(i, 2<<10), inferenceKey, http.StatusOK)
		return err
	})
	if killed := group.killed(t); killed != 0 || !s.running() {
		t.Fatalf("the process ended, and the system killed %d of the container", killed)
	}
	if passed.Load() < 2 || passed.Load()+refused.Load() != large {
		t.Errorf("%d large requests passed and %d were refused, want all of %d and at least two that passed", passed.Load(), refused.Load(), large)
	}
	result(t, "small_container", begun, "memory", fmt.Sprintf("%.0fMiB", mib(memory)), "presets", presets, "large_passed", passed.Load(),
		"large_refused", refused.Load(), "anonymous", fmt.Sprintf("%.0fMiB", mib(s.resident("RssAnon"))))
}

// tmpfs is the type of a file system in memory.
const tmpfs = 0x01021994

// memoryGroup is a control group that limits the memory of its processes.
type memoryGroup struct{ folder, events string }

// newMemoryGroup makes a control group, of version 1 or 2. Where the test may not make one, it is
// skipped.
func newMemoryGroup(t *testing.T, limit int64) memoryGroup {
	t.Helper()
	for _, version := range []struct{ folder, limit, events string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		g := memoryGroup{filepath.Join(version.folder, fmt.Sprintf("presets-%d", os.Getpid())), version.events}
		if _, err := os.Stat(filepath.Join(version.folder, "cgroup.procs")); err != nil || os.Mkdir(g.folder, 0o700) != nil {
			continue
		}
		t.Cleanup(func() { // the processes of the group have ended
			wait.Until(t, "the control group is empty", func() bool { return !errors.Is(os.Remove(g.folder), syscall.EBUSY) })
		})
		file, err := os.OpenFile(filepath.Join(g.folder, version.limit), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = file.WriteString(strconv.FormatInt(limit, 10))
		if errors.Join(err, file.Close()) == nil {
			return g
		}
	}
	t.Skip("NOT TESTED: this machine lets nobody make a control group for memory")
	return memoryGroup{}
}

// wrap returns a command that runs a binary in the group.
func (g memoryGroup) wrap(t *testing.T, binary string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "caddy")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >'%s/cgroup.procs' && exec '%s' \"$@\"\n", g.folder, binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// killed returns how many processes of the group the system killed for want of memory.
func (g memoryGroup) killed(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.folder, g.events))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatalf("%s has no oom_kill:\n%s", g.events, text)
	return 0
}
