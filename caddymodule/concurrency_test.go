package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// presetModel is the state of a preset for a single client.
type presetModel struct {
	status             domain.PresetStatus
	name               string
	designated, latest int
	labels             map[string]domain.Target
	changes            map[string]int // of each label, also of removed labels
}

// operationOf is an operation of one client on the preset.
type operationOf struct {
	do      string // the fields that step needs
	version int
	label   string
	split   []domain.Share
	name    string
	status  domain.PresetStatus
}

// request returns the operation's HTTP request.
func (op operationOf) request() (method, path, body string) {
	const preset = "/v1/presets/hot"
	target := func() string {
		if op.split != nil {
			split, _ := json.Marshal(op.split)
			return fmt.Sprintf(`{"split":%s}`, split)
		}
		return fmt.Sprintf(`{"version":%d}`, op.version)
	}
	switch op.do {
	case "get":
		return "GET", preset, ""
	case "create":
		return "POST", preset + "/responses", fmt.Sprintf(`{"top_k":%d}`, op.version)
	case "designate":
		if op.label != "" {
			return "POST", preset + "/designate", fmt.Sprintf(`{"label":%q}`, op.label)
		}
		return "POST", preset + "/designate", target()
	case "rename":
		return "PATCH", preset, fmt.Sprintf(`{"name":%q}`, op.name)
	case "status":
		return "PATCH", preset, fmt.Sprintf(`{"status":%q}`, op.status)
	case "archive":
		return "DELETE", preset, ""
	case "restore":
		return "POST", preset + "/restore", ""
	case "label":
		return "PUT", preset + "/labels/" + op.label, target()
	case "unlabel":
		return "DELETE", preset + "/labels/" + op.label, ""
	default:
		panic(op.do)
	}
}

// step returns the state after op and its answer in the form of shown. If nothing changes,
// it returns m itself.
func (m *presetModel) step(op operationOf) (*presetModel, string) {
	is := func(status domain.PresetStatus) bool { return m.status == status }
	next := *m
	next.labels, next.changes = maps.Clone(m.labels), maps.Clone(m.changes)
	if is(domain.PresetArchived) {
		switch op.do {
		case "archive":
			return m, "200 deleted"
		case "create":
			return m, "409"
		case "restore":
			next.status = domain.PresetActive
			return &next, next.shown()
		default:
			return m, "404"
		}
	}
	switch op.do {
	case "get":
		return m, m.shown()
	case "create":
		if !is(domain.PresetActive) {
			return m, "409"
		}
		next.latest++
		next.designated = next.latest
		return &next, next.shown()
	case "designate":
		n := op.version
		if op.label != "" {
			target, ok := m.labels[op.label]
			switch {
			case !ok:
				return m, "404"
			case target.Split != nil:
				return m, "400"
			}
			n = target.Version
		}
		switch {
		case n > m.latest:
			return m, "404"
		case n == m.designated:
			return m, m.shown()
		}
		next.designated = n
		return &next, next.shown()
	case "rename":
		if m.name == op.name {
			return m, m.shown()
		}
		next.name = op.name
		return &next, next.shown()
	case "status":
		if is(op.status) {
			return m, m.shown()
		}
		next.status = op.status
		return &next, next.shown()
	case "archive":
		if !is(domain.PresetActive) {
			return m, "409"
		}
		next.status = domain.PresetArchived
		return &next, "200 deleted"
	case "restore":
		if !is(domain.PresetActive) {
			return m, "409"
		}
		return m, m.shown()
	case "label":
		versions := []int{op.version}
		if op.split != nil {
			versions = nil
			for _, share := range op.split {
				versions = append(versions, share.Version)
			}
		}
		if slices.Max(versions) > m.latest {
			return m, "404"
		}
		target := domain.Target{Version: op.version, Split: op.split}
		if was, ok := m.labels[op.label]; ok && was.Version == target.Version && slices.Equal(was.Split, target.Split) {
			return m, fmt.Sprint("200 ", was, m.changes[op.label])
		}
		next.labels[op.label] = target
		next.changes[op.label]++
		return &next, fmt.Sprint("200 ", target, next.changes[op.label])
	case "unlabel":
		if _, ok := m.labels[op.label]; !ok {
			return m, "404"
		}
		delete(next.labels, op.label)
		next.changes[op.label]++
		return &next, "200 deleted"
	default:
		panic(op.do)
	}
}

// shown returns m as an answer shows it.
func (m *presetModel) shown() string {
	return fmt.Sprint("200 ", m.status, m.name, m.designated, m.labels)
}

// shown returns an answer in the form of the model's.
func shown(t *testing.T, r reply) string {
	t.Helper()
	var got struct {
		Data struct {
			Label      string
			Status     domain.PresetStatus
			Name       string
			Labels     map[string]domain.Target
			Designated struct{ Version int } `json:"designated_version"`
			domain.Target
			Changes int `json:"history_count"`
		}
		Deleted bool
	}
	switch err := json.Unmarshal([]byte(r.body), &got); {
	case err != nil:
		t.Errorf("got %d %s", r.status, r.body)
		return ""
	case r.status != 200:
		return strconv.Itoa(r.status)
	case got.Deleted:
		return "200 deleted"
	case got.Data.Label != "":
		return fmt.Sprint("200 ", got.Data.Target, got.Data.Changes)
	default:
		return (&presetModel{status: got.Data.Status, name: got.Data.Name, designated: got.Data.Designated.Version, labels: got.Data.Labels}).shown()
	}
}

// exchanged is one request with its answer and its times.
type exchanged struct {
	op         operationOf
	id         string // of the request, as in the audit trail
	began, end time.Time
	got        reply
	record     int        // number of its change among those of the preset, 0 for none
	twin       *exchanged // the same request under the same Idempotency-Key, or nil
	seen       *exchanged // the GET whose tag it had in If-Match, or nil
}

// randomOperation returns a random operation that suits a preset of some 40 versions.
func randomOperation(random *rand.Rand) operationOf {
	version, label := 1+random.IntN(40), string(rune('a'+random.IntN(3)))
	switch n := random.IntN(100); {
	case n < 20:
		return operationOf{do: "create", version: version}
	case n < 35:
		return operationOf{do: "designate", version: version}
	case n < 42:
		return operationOf{do: "designate", label: label}
	case n < 52:
		return operationOf{do: "rename", name: label}
	case n < 56:
		return operationOf{do: "status", status: domain.PresetDisabled}
	case n < 64:
		return operationOf{do: "status", status: domain.PresetActive}
	case n < 67:
		return operationOf{do: "archive"}
	case n < 75:
		return operationOf{do: "restore"}
	case n < 85:
		return operationOf{do: "label", label: label, version: 1 + random.IntN(4)}
	case n < 90:
		return operationOf{do: "label", label: label, split: []domain.Share{{Version: 1, Weight: 1}, {Version: version, Weight: 2}}[:1+min(version/2, 1)]}
	case n < 96:
		return operationOf{do: "unlabel", label: label}
	default:
		return operationOf{do: "get"}
	}
}

// TestManyClientsActAsOneAfterAnother lets many clients change one preset at once. The
// audit trail gives an order in which single requests would get the same answers. This
// order agrees with the requests' real times. A conditional change applies only to the
// state that its client saw. A change with an Idempotency-Key is made once.
func TestManyClientsActAsOneAfterAnother(t *testing.T) {
	s := start(t, standard)
	s.reloadBehind("header X-Request {http.request.uuid}", standard)
	initial := &presetModel{status: domain.PresetActive, name: "hot", designated: 4, latest: 4, labels: map[string]domain.Target{}, changes: map[string]int{}}
	for range initial.latest {
		s.manage("POST", "/v1/presets/hot/responses", `{}`).want(t, 200)
	}
	before := s.changesRecorded()

	const clients, rounds = 64, 16
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * clients}
	defer transport.CloseIdleConnections()
	ask := func(op operationOf, headers ...string) *exchanged {
		method, path, body := op.request()
		r := newRequest(t, method, s.url+path, strings.NewReader(body), append(headers, bearer(managementSecret))...)
		made := &exchanged{op: op, began: time.Now()}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return made
		}
		made.got = readResponse(t, response)
		made.end = time.Now()
		made.id = made.got.header.Get("X-Request")
		return made
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		replies []*exchanged
	)
	keep := func(made ...*exchanged) {
		mu.Lock()
		defer mu.Unlock()
		replies = append(replies, made...)
	}
	for client := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(4, uint64(client)))
			for round := range rounds {
				op := randomOperation(random)
				key := once(fmt.Sprintf("%d-%d", client, round))
				switch n := random.IntN(8); {
				case n == 0 && op.do != "get": // a client that repeats its request without waiting
					var a, b *exchanged
					var both sync.WaitGroup
					both.Go(func() { a = ask(op, key) })
					both.Go(func() { b = ask(op, key) })
					both.Wait()
					a.twin, b.twin = b, a
					keep(a, b)
				case n <= 2: // a client that reads first
					seen := ask(operationOf{do: "get"})
					keep(seen)
					if seen.got.status == 200 {
						made := ask(op, key, "If-Match: "+seen.got.header.Get("ETag"))
						made.seen = seen
						keep(made)
					}
				default:
					keep(ask(op, key))
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}

	// The audit trail's order gives the states of the preset.
	byID := map[string]*exchanged{}
	for _, r := range replies {
		byID[r.id] = r
	}
	var trail []domain.AuditRecord
	for after := before; ; {
		var page auditPage
		response := send(t, "GET", fmt.Sprintf("http://%s/presets/audit?after=%d&limit=1000", s.admin, after), "")
		if err := json.Unmarshal([]byte(response.body), &page); err != nil {
			t.Fatalf("%d %s: %v", response.status, response.body, err)
		}
		if len(page.Records) == 0 {
			break
		}
		trail, after = append(trail, page.Records...), page.Records[len(page.Records)-1].Number
	}
	states := []*presetModel{initial}
	for _, record := range trail {
		made := byID[record.RequestID]
		if made == nil || made.record != 0 {
			t.Fatalf("record %d is of request %s, which was not sent or has a record already", record.Number, record.RequestID)
		}
		now := states[len(states)-1]
		next, want := now.step(made.op)
		if got := shown(t, made.got); next == now || got != want {
			t.Fatalf("record %d, %s, of %+v:\ngot  %s\nwant %s, after %+v", record.Number, record.Operation, made.op, got, want, *now)
		}
		if made.seen != nil && shown(t, made.seen.got) != now.shown() {
			t.Errorf("record %d is a change of %s, and its client saw %s", record.Number, now.shown(), shown(t, made.seen.got))
		}
		made.record = len(states)
		states = append(states, next)
	}
	if len(trail) < clients {
		t.Errorf("only %d changes were made: not the load that this test is for", len(trail))
	}

	// Every other answer shows a state between its request and itself.
	window := func(r *exchanged) (from, to int) {
		to = len(states) - 1
		for _, other := range replies {
			if other.record != 0 && other.end.Before(r.began) {
				from = max(from, other.record)
			}
			if other.record != 0 && r.end.Before(other.began) {
				to = min(to, other.record-1)
			}
		}
		return from, to
	}
	statuses := map[int]int{}
	for _, r := range replies {
		statuses[r.got.status]++
		from, to := window(r)
		got := shown(t, r.got)
		switch {
		case r.record != 0:
			if r.record <= from || r.record > to {
				t.Errorf("change %d was made between %d and %d", r.record, from, to)
			}
			continue
		case r.twin != nil && r.got.status == 200 && r.twin.got.status == 200:
			if r.got.body != r.twin.got.body || r.got.header.Get("ETag") != r.twin.got.header.Get("ETag") {
				t.Errorf("%+v: one request got two answers:\n%s\n%s", r.op, r.got.body, r.twin.got.body)
			}
			if r.twin.record != 0 {
				continue
			}
			first, _ := window(r.twin)
			from = min(from, first)
		case r.got.status == http.StatusPreconditionFailed && r.seen != nil:
			if first, _ := window(r.seen); to <= first {
				t.Errorf("%+v: got 412, and nothing changed since its client looked", r.op)
			}
			continue
		}
		fits := false
		for _, state := range states[from : to+1] {
			next, want := state.step(r.op)
			fits = fits || next == state && got == want
		}
		if !fits {
			t.Errorf("%+v: got %s, which fits no state from %d to %d, such as %+v", r.op, got, from, to, *states[from])
		}
	}
	for _, status := range []int{200, 404, 409, 412} {
		if statuses[status] == 0 {
			t.Errorf("nobody got %d: not the load that this test is for", status)
		}
	}
	t.Logf("%d requests, %d changes, statuses %v", len(replies), len(trail), statuses)

	// The preset's final state is that after the last change.
	last := states[len(states)-1]
	if last.status == domain.PresetArchived {
		last, _ = last.step(operationOf{do: "restore"})
		s.manage("POST", "/v1/presets/hot/restore", "").want(t, 200)
	}
	if got := shown(t, s.manage("GET", "/v1/presets/hot", "")); got != last.shown() {
		t.Errorf("the preset ends as %s, want %s", got, last.shown())
	}
	s.manage("GET", "/v1/presets/hot/versions?limit=1", "").want(t, 200, fmt.Sprintf(`"total_count":%d`, last.latest))
	if got := s.metric("caddy_presets_versions_written_total"); got != strconv.Itoa(last.latest) {
		t.Errorf("%s versions were counted, want %d", got, last.latest)
	}
}
