//go:build faults

package faults

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder records the acknowledged writes, and the writes with an unknown outcome. It
// compares them with the server's later answers.
//
// Each write has a unique token, in the model and in the system prompt of a version. So
// each version that is read back identifies its write.
type recorder struct {
	// report gets the first faults.
	report func(format string, args ...any)
	// shared tells that several servers share the store, and the others continue when one
	// ends. Then a write with an unknown outcome may take effect later. A refused write
	// must not: 409 and 503 mean that nothing was changed.
	shared bool

	mu           sync.Mutex
	presets      map[presetName]*recordedPreset
	workspaces   map[string]*recordedWorkspace
	acknowledged int
	found        tally
	// cutFrom and cutTo are the times around the power cut: see cut.
	cutFrom, cutTo time.Time
}

// tally counts faults.
type tally struct {
	// lost counts acknowledged objects that are missing or changed.
	lost int
	// torn counts partial objects: a preset without its version, or a version with content
	// that no client sent. An error in place of an answer counts, too.
	torn int
	// duplicate counts numbers with two writes, and writes with two numbers.
	duplicate int
	// missing counts skipped numbers.
	missing int
}

// figures returns the counts for result.
func (f tally) figures() []any {
	return []any{"lost", f.lost, "torn", f.torn, "duplicate", f.duplicate, "missing", f.missing}
}

func (f tally) none() bool { return f == tally{} }

type presetName struct{ workspace, slug string }

// path returns the path of a preset, or of a resource below it.
func (n presetName) path(below string) string {
	path := "/v1/presets/" + n.slug + below
	switch {
	case n.workspace == "":
	case strings.Contains(below, "?"):
		path += "&workspace_id=" + n.workspace
	default:
		path += "?workspace_id=" + n.workspace
	}
	return path
}

type recordedPreset struct {
	// versions has the versions that were acknowledged or read, at index number-1.
	versions []recordedVersion
	// open has the tokens of writes with an unknown outcome.
	open       map[string]bool
	designated register // tokens
	labels     map[string]*register
	// read is the number of versions at the last check. changed tells that a write was
	// tried since.
	read    int
	changed bool
}

type recordedVersion struct {
	token string // "" if this number is unknown
	sum   digest
}

type recordedWorkspace struct {
	sum  digest // zero if the write was not acknowledged
	read bool
}

// digest is a hash of the text of an object.
type digest [16]byte

func digestOf(text []byte) (d digest) {
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}

// register has the possible values of a field with concurrent writers. A value is
// possible unless its write ended before an acknowledged write began.
type register struct {
	writes []registerWrite
	newest time.Time // the beginning of the last acknowledged write
}

type registerWrite struct {
	value string
	ended time.Time
}

func (r *register) wrote(value string, begun, ended time.Time, acknowledged bool) {
	if acknowledged && begun.After(r.newest) {
		r.newest = begun
		r.writes = slices.DeleteFunc(r.writes, func(w registerWrite) bool { return w.ended.Before(begun) })
	}
	if !ended.Before(r.newest) {
		r.writes = append(r.writes, registerWrite{value, ended})
	}
}

// saw checks a value that was read without concurrent writes. From then on it is the only
// possible value.
func (r *register) saw(value string) bool {
	possible := slices.ContainsFunc(r.writes, func(w registerWrite) bool { return w.value == value })
	*r = register{}
	now := time.Now()
	r.wrote(value, now, now, true)
	return possible
}

func newRecorder(t *testing.T) *recorder {
	return &recorder{
		report: t.Errorf, presets: map[presetName]*recordedPreset{}, workspaces: map[string]*recordedWorkspace{},
	}
}

// cut records that fn cuts the power. After a real cut a client would get no answer. Here
// it does, and ext4 reports success for a flush that it skipped. So an answer after the
// beginning of the cut counts as none, if the write was sent before its end. A write that
// was sent later must fail.
func (r *recorder) cut(fn func() error) error {
	r.mu.Lock()
	r.cutFrom, r.cutTo = time.Now(), time.Time{}
	r.mu.Unlock()
	err := fn()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutTo = time.Now()
	return err
}

// isConclusive reports whether the answer to a write sent at a time determines its outcome. The
// caller holds r.mu.
func (r *recorder) isConclusive(begun time.Time) bool {
	return r.cutFrom.IsZero() || !r.cutTo.IsZero() && begun.After(r.cutTo)
}

// outcome returns whether a write sent at a time was acknowledged or refused. It also returns
// the time after which the write can no longer be done. The caller holds r.mu.
func (r *recorder) outcome(begun time.Time, a answer, err error) (acknowledged, refused bool, ended time.Time) {
	acknowledged = err == nil && (a.status == http.StatusOK || a.status == http.StatusCreated) && r.isConclusive(begun)
	refused = r.shared && err == nil && (a.status == http.StatusServiceUnavailable || a.status == http.StatusConflict)
	if ended = time.Now(); r.shared && !acknowledged {
		ended = ended.Add(24 * time.Hour)
	}
	return acknowledged, refused, ended
}

// fault counts a fault. It reports the first ones.
func (r *recorder) fault(count *int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faultLocked(count, format, args...)
}

func (r *recorder) faultLocked(count *int, format string, args ...any) {
	*count++
	if r.found.lost+r.found.torn+r.found.duplicate+r.found.missing <= 20 {
		r.report(format, args...)
	}
}

// preset returns the record of a preset. The caller holds r.mu.
func (r *recorder) preset(name presetName) *recordedPreset {
	p := r.presets[name]
	if p == nil {
		p = &recordedPreset{open: map[string]bool{}, labels: map[string]*register{}}
		r.presets[name] = p
	}
	p.changed = true
	return p
}

// bulk is the prefix of tokens whose versions are large. They fill memtables soon.
const bulk = "bulk-"

// promptOf returns the system prompt for a token. Most have some hundred bytes, and a few
// have many thousand.
func promptOf(token string) string {
	h := fnv.New32a()
	h.Write([]byte(token))
	size := int(h.Sum32() % 1500)
	switch {
	case strings.HasPrefix(token, bulk):
		size += 20_000
	case h.Sum32()%64 == 0:
		size *= 20
	}
	return strings.Repeat(token+" ", 1+size/(len(token)+1))
}

// versionText has the fields of a version that the tests read.
type versionText struct {
	Version      int    `json:"version"`
	SystemPrompt string `json:"system_prompt"`
	Config       struct {
		Model string `json:"model"`
	} `json:"config"`
}

// presetText has the fields of a preset that the tests read.
type presetText struct {
	Slug       string                     `json:"slug"`
	Designated json.RawMessage            `json:"designated_version"`
	Labels     map[string]json.RawMessage `json:"labels"`
}

// digestOfVersion is the digest of what never changes of a version. Its last two members tell
// how requests get it, which changes.
func digestOfVersion(text []byte) digest {
	if end := bytes.LastIndex(text, []byte(`,"designated":`)); end >= 0 {
		text = text[:end]
	}
	return digestOf(text)
}

// readVersion returns the number and token of a version. It reports whether the version
// has the content that was sent with that token.
func readVersion(text []byte) (number int, token string, whole bool) {
	var v versionText
	if err := json.Unmarshal(text, &v); err != nil {
		return 0, "", false
	}
	return v.Version, v.Config.Model, v.Config.Model != "" && v.SystemPrompt == promptOf(v.Config.Model)
}

// createVersion writes the next version of a preset. An error means that the outcome is
// unknown.
func (r *recorder) createVersion(s *server, name presetName, token string) (answer, error) {
	r.mu.Lock()
	r.preset(name).open[token] = true
	r.mu.Unlock()
	begun := time.Now()
	a, err := s.send(http.MethodPost, name.path("/responses"), fmt.Sprintf(`{"model":%q,"instructions":%q}`, token, promptOf(token)))

	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.preset(name)
	acknowledged, refused, ended := r.outcome(begun, a, err)
	if refused {
		delete(p.open, token)
		return a, err
	}
	p.designated.wrote(token, begun, ended, acknowledged)
	if !acknowledged {
		return a, err
	}
	r.acknowledged++
	delete(p.open, token)
	var body struct{ Data presetText }
	if err := json.Unmarshal(a.body, &body); err != nil {
		r.faultLocked(&r.found.torn, "%s: the answer to a write is no JSON: %v", name.slug, err)
		return a, nil
	}
	text := body.Data.Designated
	number, got, whole := readVersion(text)
	if got != token || !whole || number < 1 {
		r.faultLocked(&r.found.torn, "%s: the answer to write %s is %s", name.slug, token, a)
		return a, nil
	}
	p.versions = withLength(p.versions, number)
	switch earlier := p.versions[number-1].token; earlier {
	case "":
		p.versions[number-1] = recordedVersion{token, digestOfVersion(text)}
	default:
		r.faultLocked(&r.found.duplicate, "%s: version %d is both %s and %s", name.slug, number, earlier, token)
	}
	return a, nil
}

// withLength returns versions with at least n elements.
func withLength(versions []recordedVersion, n int) []recordedVersion {
	if missing := n - len(versions); missing > 0 {
		return append(versions, make([]recordedVersion, missing)...)
	}
	return versions
}

// anyVersion returns the number and token of an existing version of a preset, or 0 if none is
// known.
func (r *recorder) anyVersion(name presetName) (number int, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.presets[name]; p != nil && len(p.versions) > 0 {
		number = 1 + rand.IntN(len(p.versions))
		if token = p.versions[number-1].token; token == "" {
			return 0, "" // the answer to that write has not arrived
		}
	}
	return number, token
}

// count returns the number of acknowledged writes.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acknowledged
}

// designate designates a version of a preset.
func (r *recorder) designate(s *server, name presetName, number int, token string) (answer, error) {
	begun := time.Now()
	a, err := s.send(http.MethodPost, name.path("/designate"), fmt.Sprintf(`{"version":%d}`, number))
	r.mu.Lock()
	defer r.mu.Unlock()
	acknowledged, refused, ended := r.outcome(begun, a, err)
	if refused {
		return a, err
	}
	r.preset(name).designated.wrote(token, begun, ended, acknowledged)
	if acknowledged {
		r.acknowledged++
	}
	return a, err
}

// label sets a label of a preset to a version.
func (r *recorder) label(s *server, name presetName, label string, number int) (answer, error) {
	begun := time.Now()
	a, err := s.send(http.MethodPut, name.path("/labels/"+label), fmt.Sprintf(`{"version":%d}`, number))
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.preset(name)
	if p.labels[label] == nil {
		p.labels[label] = &register{writes: []registerWrite{{ended: begun}}} // the label was not set
	}
	acknowledged, refused, ended := r.outcome(begun, a, err)
	if refused {
		return a, err
	}
	p.labels[label].wrote(strconv.Itoa(number), begun, ended, acknowledged)
	if acknowledged {
		r.acknowledged++
	}
	return a, err
}

// createWorkspace creates a workspace.
func (r *recorder) createWorkspace(s *server, slug string) (answer, error) {
	r.mu.Lock()
	r.workspaces[slug] = &recordedWorkspace{}
	r.mu.Unlock()
	begun := time.Now()
	a, err := s.send(http.MethodPost, "/v1/workspaces", fmt.Sprintf(`{"name":%q,"slug":%q}`, "workspace "+slug, slug))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch acknowledged, refused, _ := r.outcome(begun, a, err); {
	case acknowledged:
		r.acknowledged++
		r.workspaces[slug].sum = digestOf(a.body)
	case refused:
		delete(r.workspaces, slug)
	}
	return a, err
}

// load is a set of concurrent writers.
type load struct {
	recorder *recorder
	server   *server
	name     string // unique in the recorder
	writers  int
	bulk     bool // versions are large
	// refused gets each unsuccessful answer, and decides whether its writer continues. If
	// it is nil, such an answer fails the test.
	refused func(answer) bool

	group sync.WaitGroup
	ended chan struct{}
	stop  sync.Once
}

// begin starts the writers. Half of them share a few presets, including a new one. The
// others have their own presets, some in the workspace "team". The writers end when the
// server does not answer, or at end.
func (l *load) begin() {
	l.ended = make(chan struct{})
	for i := range l.writers {
		l.group.Go(func() { l.write(i) })
	}
}

// end lets the writers finish their requests and waits for them.
func (l *load) end() {
	l.stop.Do(func() { close(l.ended) })
	l.group.Wait()
}

func (l *load) write(i int) {
	r, s := l.recorder, l.server
	for n := 0; ; n++ {
		select {
		case <-l.ended:
			return
		default:
		}
		token := fmt.Sprintf("%s-w%d-n%d", l.name, i, n)
		name := presetName{slug: fmt.Sprintf("own-%s-%d-%d", l.name, i, n/200)}
		switch {
		case i%2 == 0:
			name.slug = [...]string{"shared-1", "shared-2", "new-" + l.name}[rand.IntN(3)]
		case i%4 == 1:
			name.workspace = "team"
		}
		var a answer
		var err error
		if l.bulk {
			token = bulk + token
		}
		number, known := r.anyVersion(name)
		switch dice := rand.IntN(100); {
		case dice < 6:
			a, err = r.createWorkspace(s, strings.ToLower(token))
		case dice < 14 && number > 0:
			a, err = r.designate(s, name, number, known)
		case dice < 20 && number > 0:
			a, err = r.label(s, name, "stable", number)
		default:
			a, err = r.createVersion(s, name, token)
		}
		switch {
		case err != nil: // no server runs any more
			return
		case a.status >= 300 && l.refused == nil:
			r.fault(&r.found.torn, "write %s gives %s", token, a)
			return
		case a.status >= 300 && !l.refused(a):
			return
		}
	}
}

// verify compares the server's data with the records, while no client writes. It checks every
// write since its last call and a sample of the rest, or all writes.
func (r *recorder) verify(s *server, all bool) {
	r.mu.Lock()
	r.cutFrom, r.cutTo = time.Time{}, time.Time{} // the power is back
	names := slices.Collect(maps.Keys(r.presets))
	workspaces := slices.Collect(maps.Keys(r.workspaces))
	r.mu.Unlock()

	work := make(chan func())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for check := range work {
				check()
			}
		})
	}
	for _, name := range names {
		work <- func() { r.verifyPreset(s, name, all) }
	}
	for _, slug := range workspaces {
		work <- func() { r.verifyWorkspace(s, slug, all) }
	}
	close(work)
	group.Wait()

	// The lists must equal the objects that were read one by one.
	in := map[string][]string{"": nil, "team": nil}
	for name, p := range r.presets {
		if len(p.versions) > 0 {
			in[name.workspace] = append(in[name.workspace], name.slug)
		}
	}
	for workspace, want := range in {
		if workspace != "" && r.workspaces[workspace] == nil {
			continue
		}
		r.verifyList(s, "/v1/presets?workspace_id="+workspace, want, all)
	}
	r.verifyList(s, "/v1/workspaces?", append(slices.Collect(maps.Keys(r.workspaces)), "default"), all)
}

// verifyList checks that a list has certain slugs, or only checks their number.
func (r *recorder) verifyList(s *server, path string, want []string, all bool) {
	path = strings.TrimSuffix(path, "workspace_id=")
	var got []string
	for {
		a, ok := r.read(s, path+"&limit=100&offset="+strconv.Itoa(len(got)))
		if !ok {
			return
		}
		var page struct {
			Data       []struct{ Slug string }
			TotalCount int `json:"total_count"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			r.fault(&r.found.torn, "%s: %v", path, err)
			return
		}
		if page.TotalCount != len(want) {
			r.fault(&r.found.torn, "%s has %d, want %d", path, page.TotalCount, len(want))
			return
		}
		for _, object := range page.Data {
			got = append(got, object.Slug)
		}
		if !all || len(got) >= len(want) || len(page.Data) == 0 {
			break
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if all && !slices.Equal(got, want) {
		r.fault(&r.found.torn, "%s has others than those that were created: %d of %d", path, len(got), len(want))
	}
}

// read reads an object that must exist.
func (r *recorder) read(s *server, path string) (answer, bool) {
	a, err := s.get(path)
	if err != nil || a.status != http.StatusOK {
		r.fault(&r.found.torn, "%s gives %s, %v", path, a, err)
		return a, false
	}
	return a, true
}

func (r *recorder) verifyWorkspace(s *server, slug string, all bool) {
	r.mu.Lock()
	w := r.workspaces[slug]
	r.mu.Unlock()
	if w.read && !all && rand.IntN(100) > 0 {
		return
	}
	a, err := s.get("/v1/workspaces/" + slug)
	switch got := digestOf(a.body); {
	case err != nil || a.status != http.StatusOK && a.status != http.StatusNotFound:
		r.fault(&r.found.torn, "workspace %s gives %s, %v", slug, a, err)
	case a.status == http.StatusNotFound && w.sum == digest{}:
		r.mu.Lock()
		delete(r.workspaces, slug) // it was not created, and will not be
		r.mu.Unlock()
	case a.status == http.StatusNotFound:
		r.fault(&r.found.lost, "workspace %s is gone", slug)
	case w.sum == digest{}:
		if !bytes.Contains(a.body, fmt.Appendf(nil, `"name":"workspace %s","slug":%q`, slug, slug)) {
			r.fault(&r.found.torn, "workspace %s is %s", slug, a)
		}
		w.sum, w.read = got, true
	case w.sum != got:
		r.fault(&r.found.lost, "workspace %s is not as it was: %s", slug, a)
	default:
		w.read = true
	}
}

func (r *recorder) verifyPreset(s *server, name presetName, all bool) {
	r.mu.Lock()
	p := r.presets[name]
	r.mu.Unlock()
	if !p.changed && !all && rand.IntN(100) > 0 {
		return
	}
	known := 0 // acknowledged, or read before
	for _, v := range p.versions {
		if v.token != "" {
			known++
		}
	}
	head, err := s.get(name.path(""))
	if err == nil && head.status == http.StatusNotFound {
		if known > 0 {
			r.fault(&r.found.lost, "preset %s is gone, with %d versions", name.slug, known)
		}
		for _, below := range []string{"/versions", "/versions/1"} {
			if a, err := s.get(name.path(below)); err != nil || a.status != http.StatusNotFound {
				r.fault(&r.found.torn, "there is no preset %s, but its %s: %s, %v", name.slug, below, a, err)
			}
		}
		p.open, p.changed = map[string]bool{}, false
		return
	}
	var body struct{ Data presetText }
	if err != nil || head.status != http.StatusOK || json.Unmarshal(head.body, &body) != nil || body.Data.Slug != name.slug {
		r.fault(&r.found.torn, "preset %s gives %s, %v", name.slug, head, err)
		return
	}

	from := p.read
	switch {
	case all:
		from = 0
	case from > 0: // a sample of the known versions
		from = max(0, rand.IntN(from)/100*100)
		if r.verifyVersions(s, name, p, from, from+100) < 0 {
			return
		}
		from = p.read
	}
	total := r.verifyVersions(s, name, p, from, 1<<30)
	if total < 0 {
		return
	}
	for number := total + 1; number <= len(p.versions); number++ {
		if p.versions[number-1].token != "" {
			r.fault(&r.found.lost, "version %d of preset %s is gone: there are %d", number, name.slug, total)
		}
	}
	p.versions = p.versions[:min(total, len(p.versions))]

	number, token, _ := readVersion(body.Data.Designated)
	switch {
	case number < 1 || number > len(p.versions) || p.versions[number-1] != (recordedVersion{token, digestOfVersion(body.Data.Designated)}):
		r.fault(&r.found.torn, "preset %s designates %s, which is none of its %d versions", name.slug, body.Data.Designated, total)
	case !p.designated.saw(token):
		r.fault(&r.found.lost, "preset %s designates version %d, which was replaced", name.slug, number)
	}
	for label, values := range p.labels {
		var target struct{ Version int }
		value := "" // not set
		if text, ok := body.Data.Labels[label]; ok && json.Unmarshal(text, &target) == nil {
			value = strconv.Itoa(target.Version)
		}
		if !values.saw(value) {
			r.fault(&r.found.lost, "label %s of preset %s stands for version %q, which was replaced", label, name.slug, value)
		}
	}
	p.open, p.read, p.changed = map[string]bool{}, total, false
}

// verifyVersions compares a preset's versions after number from, up to number to. It
// records those that were not acknowledged. It returns the number of versions, or -1 if
// they cannot be read.
func (r *recorder) verifyVersions(s *server, name presetName, p *recordedPreset, from, to int) int {
	for next := from; ; {
		a, ok := r.read(s, name.path("/versions?limit=100&offset="+strconv.Itoa(next)))
		if !ok {
			return -1
		}
		var page struct {
			Data       []json.RawMessage
			TotalCount int `json:"total_count"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			r.fault(&r.found.torn, "%s: versions after %d: %v", name.slug, next, err)
			return -1
		}
		for _, text := range page.Data {
			next++
			r.verifyVersion(name, p, next, text)
		}
		if next >= min(page.TotalCount, to) {
			return page.TotalCount
		}
		if len(page.Data) == 0 {
			r.fault(&r.found.missing, "preset %s has %d versions and lists none after %d", name.slug, page.TotalCount, next)
			return -1
		}
	}
}

// verifyVersion compares one version of a list with the record of its number.
func (r *recorder) verifyVersion(name presetName, p *recordedPreset, number int, text []byte) {
	got, token, whole := readVersion(text)
	switch {
	case got < number:
		r.fault(&r.found.duplicate, "preset %s lists version %d at %d", name.slug, got, number)
		return
	case got > number:
		r.fault(&r.found.missing, "preset %s lists version %d at %d", name.slug, got, number)
		return
	}
	p.versions = withLength(p.versions, number)
	switch known := &p.versions[number-1]; {
	case known.token != "" && known.sum != digestOfVersion(text):
		r.fault(&r.found.lost, "version %d of preset %s was %s and is %.300s", number, name.slug, known.token, text)
	case known.token != "":
	case !whole:
		r.fault(&r.found.torn, "version %d of preset %s is %.300s", number, name.slug, text)
	case !p.open[token]:
		r.fault(&r.found.duplicate, "version %d of preset %s is from write %s, which was done before or never sent", number, name.slug, token)
	default:
		delete(p.open, token)
		*known = recordedVersion{token, digestOfVersion(text)}
	}
}
