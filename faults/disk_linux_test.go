//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// resume is the time limit for writes to resume once there is space.
const resume = 5 * time.Second

// TestDisk fills the disk to the last byte under load. Writes get a 503. Reads succeed, the
// server lives, and writes resume by themselves. No acknowledged write is lost. The server
// may die of the cause that TestDiskAtFlush provokes. The test counts that. A server
// started on the full disk forwards the gateway's requests. It serves presets once there is
// space.
func TestDisk(t *testing.T) {
	runDisk(t, "disk", func(d *disk, name string, cycle int) {
		d.fillUnderLoad(name, cycle%2 == 0, false)
		d.startOnFullDisk()
	})
}

// TestDiskAtFlush fills the disk at the worst moment: a memtable has just become full.
// Badger writes it to a memory map of a file without blocks. The system kills the process
// if the disk has no block, because Badger does not reserve space for this file. The test
// counts the deaths. Acknowledged writes remain, and a start with free space finds them.
func TestDiskAtFlush(t *testing.T) {
	tier.Long(t)
	runDisk(t, "disk-at-flush", func(d *disk, name string, _ int) {
		d.mayDie = true
		d.fillUnderLoad(name, false, true)
	})
}

// runDisk runs cycles on each file system and logs their figures.
func runDisk(t *testing.T, run string, once func(d *disk, name string, cycle int)) {
	for _, kind := range []string{"ext4", "btrfs", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			begun := time.Now()
			v := newVolume(t, kind, int64(choose(400, 2000))<<20)
			d := &disk{t: t, volume: v, server: newServer(t, options{store: filepath.Join(v.folder, "store")}), recorder: newRecorder(t)}
			d.server.mustStart()
			if a, err := d.recorder.createWorkspace(d.server, "team"); err != nil || a.status != http.StatusCreated {
				t.Fatal(a, err)
			}
			cycles := choose(1, 20)
			done := 0
			for ; done < cycles && !t.Failed(); done++ {
				once(d, "c"+strconv.Itoa(done), done)
			}
			if d.server.running() {
				d.recorder.verify(d.server, true)
			}
			result(t, run+"-"+kind, begun, append([]any{
				"cycles", done, "deaths", d.deaths, "acknowledged", d.recorder.acknowledged, "refused", d.refused.Load(),
				"reads", d.reads.Load(), "reads-failed", d.readsFailed.Load(), "slowest-resume", d.slowest.Round(time.Millisecond),
			}, d.recorder.found.figures()...)...)
		})
	}
}

// disk is a server on a disk that the test fills.
type disk struct {
	t        *testing.T
	volume   *volume
	server   *server
	recorder *recorder

	mayDie                      bool
	deaths                      int
	refused, reads, readsFailed atomic.Int64
	slowest                     time.Duration // until writes resumed
}

// checkAlive fails the test if the server has died.
func (d *disk) checkAlive(when string) bool {
	d.t.Helper()
	if d.server.running() {
		return true
	}
	if d.deaths++; !d.mayDie && !d.hasDiedAtFlush() {
		d.t.Errorf("the server died %s: %v", when, d.server.process.Wait())
	}
	return false
}

// hasDiedAtFlush reports whether the system killed the server while a memtable was being
// written.
func (d *disk) hasDiedAtFlush() bool {
	return d.countLogs() > 1 && strings.Contains(d.server.excerpt(), "unexpected fault address")
}

// checkRefused checks the answer to a write while the disk is full.
func (d *disk) checkRefused(a answer) {
	if d.refused.Add(1); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		d.t.Errorf("a write on a full disk gives %s with Retry-After %q, want a 503 with one", a, a.header.Get("Retry-After"))
	}
}

// countLogs returns the number of the store's write-ahead logs. It increases when a memtable
// is full and will be written to a table.
func (d *disk) countLogs() int {
	d.t.Helper()
	names, err := filepath.Glob(filepath.Join(d.server.store, "*.mem"))
	if err != nil {
		d.t.Fatal(err)
	}
	return len(names)
}

// fillUnderLoad fills the disk while sixteen clients write and four read. It does so at any
// moment, or when a memtable is being flushed. If greedy, it also takes the space of the
// ballast at once.
func (d *disk) fillUnderLoad(name string, greedy, atFlush bool) {
	var until atomic.Pointer[time.Time] // until then writes may be refused
	until.Store(new(time.Time))
	l := &load{recorder: d.recorder, server: d.server, name: name, writers: 16, bulk: atFlush, refused: func(a answer) bool {
		if time.Now().After(*until.Load()) {
			d.t.Errorf("a write gives %s when the disk is not full", a)
			return false
		}
		d.checkRefused(a)
		time.Sleep(20 * time.Millisecond)
		return !d.t.Failed()
	}}
	l.begin()
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { d.read(ended) })
	}
	time.Sleep(300*time.Millisecond + time.Duration(rand.Int64N(int64(700*time.Millisecond))))
	before := d.countLogs()
	for begun := time.Now(); atFlush && time.Since(begun) < 10*time.Second && d.countLogs() <= before; before = min(before, d.countLogs()) {
		time.Sleep(time.Millisecond)
	}
	until.Store(new(time.Now().Add(time.Hour)))
	d.volume.fill()
	refused := d.refused.Load()
	goesOn := func(since time.Duration) bool {
		return since < 2*time.Second || since < 30*time.Second && d.refused.Load() == refused
	}
	for begun := time.Now(); goesOn(time.Since(begun)) && d.server.running(); time.Sleep(5 * time.Millisecond) {
		if greedy {
			d.volume.fill()
		}
	}
	if d.checkAlive("on a full disk") && d.refused.Load() == 0 {
		d.t.Errorf("no write was refused, with %d bytes free", d.volume.free())
	}
	d.volume.empty()
	until.Store(new(time.Now().Add(resume)))
	if d.server.running() {
		d.waitResumed("once there was space", l.name)
	}
	time.Sleep(200 * time.Millisecond)
	l.end()
	close(ended)
	readers.Wait()
	hasDied := !d.server.running()
	if hasDied && !d.t.Failed() {
		d.server.mustStart()
	}
	if d.server.running() {
		d.recorder.verify(d.server, hasDied)
	}
}

// read reads acknowledged versions, one after another, until ended is closed.
func (d *disk) read(ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		name := presetName{slug: [...]string{"shared-1", "shared-2"}[rand.IntN(2)]}
		number, token := d.recorder.anyVersion(name)
		if number == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		a, err := d.server.get(name.path("/versions/" + strconv.Itoa(number)))
		if err != nil && d.server.hasDied() {
			return // another check counts deaths
		}
		d.reads.Add(1)
		if err != nil || a.status != http.StatusOK || a.token() != token {
			d.readsFailed.Add(1)
			d.t.Errorf("reading version %d of %s gives %s, %v", number, name.slug, a, err)
		}
	}
}

// waitResumed waits until a write succeeds.
func (d *disk) waitResumed(when, name string) {
	begun := time.Now()
	for n := 0; ; n++ {
		a, err := d.recorder.createVersion(d.server, presetName{slug: "again-" + name}, fmt.Sprintf("again-%s-%d", name, n))
		took := time.Since(begun)
		switch {
		case err == nil && a.status == http.StatusOK:
			d.slowest = max(d.slowest, took)
			return
		case err != nil || took > resume:
			d.t.Errorf("%s a write gives %s, %v after %s", when, a, err, took)
			return
		}
		d.checkRefused(a)
		time.Sleep(20 * time.Millisecond)
	}
}

// startOnFullDisk kills the server and starts it on the full disk.
func (d *disk) startOnFullDisk() {
	s := d.server
	if d.t.Failed() {
		return
	}
	l := &load{recorder: d.recorder, server: s, name: fmt.Sprintf("start-%d", d.recorder.acknowledged), writers: 16, refused: func(answer) bool { return false }}
	l.begin()
	time.Sleep(300 * time.Millisecond)
	s.kill()
	l.end()
	d.volume.fill()
	if err := s.start(); err != nil {
		d.deaths++
		d.t.Errorf("a server does not start on a full disk: %v", err)
		d.volume.empty()
		if err := s.start(); err != nil {
			d.t.Errorf("it does not start with free space either: %v", err)
		}
		return
	}
	for until := time.Now().Add(time.Second); time.Now().Before(until) && s.running(); time.Sleep(50 * time.Millisecond) {
		if a, err := s.get("/v1/models"); err != nil || a.status != http.StatusOK || string(a.body) != gatewayAnswer {
			d.t.Errorf("on a full disk the gateway's own route gives %s, %v", a, err)
			break
		}
		a, err := s.get("/v1/presets/shared-1")
		if err != nil || a.status != http.StatusOK && (a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "") {
			d.t.Errorf("a server that was started on a full disk answers %s, %v, want a preset or a 503 with Retry-After", a, err)
			break
		}
		a, err = d.recorder.createVersion(s, presetName{slug: "full"}, fmt.Sprintf("full-%d-%s", d.recorder.acknowledged, time.Until(until)))
		if err != nil {
			d.t.Errorf("a write on a full disk: %v", err)
			break
		}
		if a.status != http.StatusOK {
			d.checkRefused(a)
		}
	}
	d.checkAlive("after a start on a full disk")
	d.volume.empty()
	if s.running() {
		d.waitResumed("after a start on a full disk, once there was space,", l.name)
		d.recorder.verify(s, false)
	}
}

// token returns the token of the version in an answer, or "" if the version is not whole.
func (a answer) token() string {
	var body struct{ Data json.RawMessage }
	if json.Unmarshal(a.body, &body) != nil {
		return ""
	}
	if _, token, whole := readVersion(body.Data); whole {
		return token
	}
	return ""
}
