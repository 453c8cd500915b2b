//go:build faults

package faults

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestKill kills the server at random moments during the writes of sixteen writers. No
// acknowledged write is lost, and no write is partial.
func TestKill(t *testing.T) {
	begun := time.Now()
	cycles, acknowledged := choose(5, 300), choose(500, 300_000)
	s, r := newServer(t, options{}), newRecorder(t)
	cycle, inStart := 0, 0
	for ; cycle < cycles || r.acknowledged < acknowledged && cycle < 20*cycles; cycle++ {
		if cycle%3 == 2 {
			// This start is killed before it ends, while it recovers from the last kill.
			s.launch()
			time.Sleep(time.Duration(rand.Int64N(int64(150 * time.Millisecond))))
			s.kill()
			inStart++
		}
		s.mustStart()
		if cycle == 0 {
			if a, err := r.createWorkspace(s, "team"); err != nil || a.status != http.StatusCreated {
				t.Fatal(a, err)
			}
		} else {
			r.verify(s, false)
		}
		if !r.found.none() {
			t.Fatalf("after cycle %d:\n%s", cycle, s.excerpt()) // later faults may follow from this one
		}
		l := &load{recorder: r, server: s, name: "c" + strconv.Itoa(cycle), writers: 16}
		l.begin()
		// It mostly waits a moment. Sometimes it waits until a memtable or two is filled,
		// so that the kill interrupts a flush or compaction.
		moment := time.Duration(rand.Int64N(int64(time.Second)))
		if cycle%5 == 4 {
			moment += 2500 * time.Millisecond
		}
		time.Sleep(moment)
		s.kill()
		l.end()
	}
	s.mustStart()
	r.verify(s, true)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	s.mustStart()
	r.verify(s, true) // also after compaction
	if out, err := s.command("presets", "audit", "--verify", "--address", s.admin); err != nil || !strings.Contains(out, "unbroken") {
		t.Errorf("the audit trail: %v\n%.500s", err, out)
	}
	if r.acknowledged < acknowledged {
		t.Errorf("only %d writes were acknowledged, so almost nothing was tested", r.acknowledged)
	}
	result(t, "kill", begun, append([]any{"cycles", cycle, "in-start", inStart, "acknowledged", r.acknowledged}, r.found.figures()...)...)
}
