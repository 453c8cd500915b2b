//go:build faults

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestFlip flips a bit in a file of a plain or encrypted store, or shortens or removes a
// file. The store serves correct data or errors. The gateway starts and survives in any
// case.
func TestFlip(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	stores := append(makeStores(t, false), makeStores(t, true)...)
	trials := choose(10, 2000)

	// Alternate between stores. Each has every kind of damage to every kind of file.
	places := make([][]damage, len(stores))
	kinds := 0
	for i, store := range stores {
		places[i] = allDamages(store)
		kinds += len(places[i])
	}

	var mu sync.Mutex
	counts := map[outcome]int{}
	tables := map[string]map[outcome]int{}
	next := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			servers := map[bool]*server{false: newServer(t, options{}), true: newServer(t, options{encrypted: true})}
			for i := range next {
				of := places[i%len(places)]
				d := of[i/len(places)%len(of)]
				s := servers[d.store.encrypted]
				d.inflict(t, s.store)
				got, why := trial(s, d.store.truth)
				s.kill()
				mu.Lock()
				counts[got]++
				name := d.kind + " " + d.how
				if tables[name] == nil {
					tables[name] = map[outcome]int{}
				}
				tables[name][got]++
				mu.Unlock()
				if got == wrong || got == death {
					t.Errorf("%v: %s: %s\n%s", d, got, why, s.excerpt())
				}
			}
		})
	}
	first := rand.IntN(kinds) // a short run begins at a random place
	for i := range trials {
		next <- first + i
	}
	close(next)
	workers.Wait()

	for _, name := range slices.Sorted(maps.Keys(tables)) {
		t.Logf("%-24s %v", name, tables[name])
	}
	result(t, "flip", begun, "trials", trials, "kinds", kinds, "detected", counts[detected], "harmless", counts[harmless], "wrong", counts[wrong], "deaths", counts[death])
}

// outcome is the effect of damage.
type outcome string

const (
	detected outcome = "detected" // the store was refused, or a request got an error
	harmless outcome = "harmless" // all answers are unchanged
	wrong    outcome = "wrong"    // an answer was wrong
	death    outcome = "death"    // the gateway died
)

// storeCopy is a folder with an undamaged store.
type storeCopy struct {
	name, folder string
	encrypted    bool
	files        map[string][]string // by kind: the extension, or the name
	truth        map[string][]byte   // a server's answers from it
}

// makeStores makes a store with each kind of file, as a kill leaves it. It also makes the
// same store as a clean stop leaves it.
func makeStores(t *testing.T, encrypted bool) []storeCopy {
	t.Helper()
	s, r := newServer(t, options{encrypted: encrypted}), newRecorder(t)
	name := "plain"
	if encrypted {
		name = "encrypted"
	}
	for i := range 5 { // each start after a kill writes the log to a table
		s.mustStart()
		if i == 0 {
			if a, err := r.createWorkspace(s, "team"); err != nil || a.status != http.StatusCreated {
				t.Fatal(a, err)
			}
		}
		l := &load{recorder: r, server: s, name: "c" + strconv.Itoa(i), writers: 8}
		l.begin()
		time.Sleep(150 * time.Millisecond)
		l.end()
		s.kill()
	}
	killed := copyOf(t, name+" and killed", s.store)
	s.mustStart()
	r.verify(s, true)
	truth := readAnswers(t, s, r)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	stores := []storeCopy{killed, copyOf(t, name+" and stopped", s.store)}
	for i := range stores {
		stores[i].encrypted, stores[i].truth = encrypted, truth
	}
	return stores
}

// allDamages returns each kind of damage to each kind of file of a store once. Each prefix
// of the result covers all files and kinds evenly.
func allDamages(store storeCopy) (all []damage) {
	hows := []string{"flipped", "cut short", "removed"}
	kinds := slices.Collect(maps.Keys(store.files))
	rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	rand.Shuffle(len(hows), func(i, j int) { hows[i], hows[j] = hows[j], hows[i] })
	for round := range hows {
		for i, kind := range kinds {
			all = append(all, damage{store: store, kind: kind, how: hows[(round+i)%len(hows)]})
		}
	}
	return all
}

// readAnswers reads everything that a server returns about the recorded objects.
func readAnswers(t *testing.T, s *server, r *recorder) map[string][]byte {
	t.Helper()
	paths := []string{"/v1/presets?limit=100", "/v1/presets?limit=100&workspace_id=team"}
	for offset := 0; offset <= len(r.workspaces); offset += 100 {
		paths = append(paths, "/v1/workspaces?limit=100&offset="+strconv.Itoa(offset))
	}
	for slug := range r.workspaces {
		paths = append(paths, "/v1/workspaces/"+slug)
	}
	for name, p := range r.presets {
		paths = append(paths, name.path(""))
		for label := range p.labels {
			paths = append(paths, name.path("/labels/"+label))
		}
		for offset := 0; offset < len(p.versions); offset += 100 {
			paths = append(paths, name.path("/versions?limit=100&offset="+strconv.Itoa(offset)))
		}
		if len(p.versions) > 0 {
			paths = append(paths, name.path("/versions/"+strconv.Itoa(len(p.versions))))
		}
	}
	got := make(map[string][]byte, len(paths))
	for _, path := range paths {
		a, err := s.get(path)
		// A preset or label does not exist if its creation was not finished.
		if err != nil || a.status != http.StatusOK && a.status != http.StatusNotFound {
			t.Fatalf("%s gives %s, %v", path, a, err)
		}
		got[path] = a.body
	}
	return got
}

// copyOf copies a store's folder.
func copyOf(t *testing.T, name, folder string) storeCopy {
	t.Helper()
	c := storeCopy{name: name, folder: filepath.Join(t.TempDir(), "store"), files: map[string][]string{}}
	copyFolder(t, folder, c.folder)
	err := filepath.WalkDir(c.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, _ := filepath.Rel(c.folder, path)
		kind := filepath.Ext(file)
		if kind == "" {
			kind = file
		}
		c.files[kind] = append(c.files[kind], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// copyFolder replaces a folder by a full copy of another. It makes no hard links, because
// Badger truncates files before it removes them. It writes no zeros, because most of a
// log is zero.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rest)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, bytes.TrimRight(text, "\x00"), 0o600); err != nil {
			return err
		}
		return os.Truncate(target, int64(len(text)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damage is one fault in one file.
type damage struct {
	store storeCopy
	kind  string
	how   string
	file  string // chosen when it is inflicted
	place int64
	size  int64
}

func (d damage) String() string {
	return fmt.Sprintf("%s of the store that was %s %s at %d of %d", d.file, d.store.name, d.how, d.place, d.size)
}

// inflict makes a damaged copy of the store.
func (d *damage) inflict(t *testing.T, folder string) {
	t.Helper()
	copyFolder(t, d.store.folder, folder)
	files := d.store.files[d.kind]
	d.file = files[rand.IntN(len(files))]
	path := filepath.Join(folder, d.file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d.size = int64(len(text))
	// Mostly damage the part of the file before its trailing zeros.
	used := len(bytes.TrimRight(text, "\x00"))
	if used == 0 || rand.IntN(10) == 0 {
		used = len(text)
	}
	switch {
	case d.how == "removed" || used == 0:
		d.how = "removed"
		err = os.Remove(path)
	case d.how == "cut short":
		d.place = rand.Int64N(int64(used))
		err = os.Truncate(path, d.place)
	default:
		d.place = rand.Int64N(int64(used))
		text[d.place] ^= 1 << rand.IntN(8)
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// damageMessage matches the log messages for a damaged store or record.
var damageMessage = regexp.MustCompile(`damaged|restore a backup|has lost its|is neither empty nor a store`)

// trial starts a server on a damaged store and compares all its answers with the truth. It
// then lets the server write, stops it and repeats. By then compaction may have processed
// the damage.
func trial(s *server, truth map[string][]byte) (outcome, string) {
	got := harmless
	for round := range 2 {
		if err := s.start(); err != nil {
			return death, fmt.Sprintf("at start %d: %v", round+1, err)
		}
		found, why := compare(s, truth, round > 0)
		switch found {
		case wrong, death:
			return found, fmt.Sprintf("in round %d, %s", round+1, why)
		case detected:
			got = detected
		}
		if round > 0 {
			return got, ""
		}
		if found, why := writeVersion(s, truth); found != harmless {
			return found, why
		}
		if err := s.stop(); err != nil {
			return death, "stopping: " + err.Error()
		}
	}
	return got, ""
}

// compare reads everything again. After a write the lists and the written preset differ.
func compare(s *server, truth map[string][]byte, written bool) (outcome, string) {
	got := harmless
	if a, err := s.get("/v1/models"); err != nil || string(a.body) != gatewayAnswer {
		return death, fmt.Sprintf("the gateway's own route gives %s, %v", a, err)
	}
	for path, want := range truth {
		if written && (strings.HasPrefix(path, "/v1/presets?") || strings.HasPrefix(path, "/v1/presets/shared-1")) {
			continue
		}
		a, err := s.get(path)
		switch {
		case !s.running():
			return death, "at " + path
		case err != nil:
			return death, fmt.Sprintf("%s: %v", path, err)
		case a.status >= http.StatusInternalServerError:
			got = detected
		case !bytes.Equal(a.body, want):
			return wrong, fmt.Sprintf("%s gives %s, want %.500s", path, a, want)
		}
	}
	if got == detected && !damageMessage.MatchString(s.log()) {
		return wrong, "the log does not tell of damage"
	}
	return got, ""
}

// writeVersion adds a version to a preset. The server must store the next version or none.
func writeVersion(s *server, truth map[string][]byte) (outcome, string) {
	var versions struct {
		TotalCount int `json:"total_count"`
	}
	name := presetName{slug: "shared-1"}
	if err := json.Unmarshal(truth[name.path("/versions?limit=100&offset=0")], &versions); err != nil {
		return wrong, err.Error()
	}
	token := "after-the-damage"
	a, err := s.send(http.MethodPost, name.path("/responses"), fmt.Sprintf(`{"model":%q,"instructions":%q}`, token, promptOf(token)))
	if err != nil {
		return death, fmt.Sprintf("a write: %v", err)
	}
	var body struct{ Data presetText }
	switch {
	case a.status >= http.StatusInternalServerError:
		return harmless, ""
	case a.status != http.StatusOK || json.Unmarshal(a.body, &body) != nil:
		return wrong, fmt.Sprintf("a write gives %s", a)
	}
	if number, got, whole := readVersion(body.Data.Designated); number != versions.TotalCount+1 || got != token || !whole {
		return wrong, fmt.Sprintf("the version after %d is %s", versions.TotalCount, body.Data.Designated)
	}
	return harmless, ""
}
