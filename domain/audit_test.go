package domain_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/diff"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// audited is a store with a few changes of each kind.
func audited(t *testing.T) *fixture {
	t.Helper()
	f := labelled(t, 2)
	f.label(t, "live", domain.Target{Version: 1})
	f.now = f.now.Add(time.Second)
	f.must(f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: 1}))
	f.workspace(t, "team")
	k, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Name: "ci", Workspace: "team"})
	bob := user
	bob.Kind = domain.ManagementKey
	for range 2 { // the second time it is so already
		if _, err := f.RevokeKey(t.Context(), domain.By(bob), k.ID); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestAuditTrail(t *testing.T) {
	f := audited(t)
	trail := f.trail(t)
	var got []string
	for i, r := range trail {
		if r.Number != i+1 || r.Time.Before(trail[max(0, i-1)].Time) {
			t.Errorf("record %d is %+v", i+1, r)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s %s %d>%d", r.KeyID, r.UserID, r.RequestID, r.Operation, r.Object.Kind, r.Object.Slug+r.Object.Label, r.Before, r.After))
	}
	want := []string{
		" system  workspace.create workspace default 0>0",
		"k1 ann  preset.create_version preset p 0>1",
		"k1 ann  preset.create_version preset p 1>2",
		"k1 ann r1 label.set preset plive 0>1",
		"k1 ann r1 preset.designate preset p 2>1",
		"k1 ann  workspace.create workspace team 0>0",
		"k1 ann r1 key.create key  0>0",
		"k2 bob  key.delete key  0>0",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	keys, err := f.Keys(t.Context())
	if err != nil || trail[6].Object.ID != keys[0].ID || trail[6].Object.WorkspaceID != keys[0].WorkspaceID || trail[7].Object != trail[6].Object {
		t.Errorf("got %+v and %+v of %+v, %v", trail[6], trail[7], keys, err)
	}
	for _, tc := range []struct{ after, limit, from, to int }{
		{0, 100, 0, 8}, {-1, 100, 0, 8}, {math.MinInt, 1, 0, 1}, {0, 3, 0, 3}, {3, 3, 3, 6}, {7, 3, 7, 8}, {8, 3, 0, 0}, {math.MaxInt, 3, 0, 0}, {0, 0, 0, 0}, {0, -1, 0, 0},
	} {
		records, head, err := f.AuditTrail(t.Context(), tc.after, tc.limit)
		if err != nil || !slices.EqualFunc(records, trail[tc.from:tc.to], func(a, b domain.AuditRecord) bool { return reflect.DeepEqual(a, b) }) || head != (domain.AuditHead{Count: 8, Hash: trail[7].Hash}) {
			t.Errorf("%d after %d: got %d records, head %+v, %v, want those from %d to %d", tc.limit, tc.after, len(records), head, err, tc.from, tc.to)
		}
	}
}

// No more than MaxAuditPage records come at once, whatever is asked for.
func TestAuditPageLimit(t *testing.T) {
	tier.NoRace(t)
	f := labelled(t, 1)
	for i := range domain.MaxAuditPage {
		f.must(f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Name: new(fmt.Sprint(i))}))
	}
	records, head, err := f.AuditTrail(t.Context(), 0, math.MaxInt)
	if err != nil || len(records) != domain.MaxAuditPage || head.Count != domain.MaxAuditPage+2 {
		t.Errorf("got %d of %d records, %v", len(records), head.Count, err)
	}
	f.trail(t) // all of them, in pages
}

// Anybody can check a record's hash from its JSON alone.
func TestAuditHash(t *testing.T) {
	previous := strings.Repeat("0", 64)
	for _, r := range audited(t).trail(t) {
		text, err := jsonv2.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		head, tail, ok := strings.Cut(string(text), `,"hash":"`)
		if sum := sha256.Sum256([]byte(head + "}")); !ok || tail != fmt.Sprintf(`%x"}`, sum) {
			t.Errorf("got %s, want the hash %x at its end", text, sum)
		}
		var again domain.AuditRecord
		if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("got %+v, %v, want %+v", again, err, r)
		}
		if !strings.HasSuffix(head, `"previous":"`+previous+`"`) {
			t.Errorf("got %s, want it to follow from %s", text, previous)
		}
		previous = strings.TrimSuffix(tail, `"}`)
	}
}

func TestAuditShowsWhatWasChanged(t *testing.T) {
	trail := audited(t).trail(t)
	verify := func(records []domain.AuditRecord) (domain.AuditHead, error) {
		return domain.VerifyAudit(domain.AuditHead{}, records)
	}
	whole, err := verify(trail)
	if err != nil || whole != (domain.AuditHead{Count: len(trail), Hash: trail[len(trail)-1].Hash}) {
		t.Fatalf("got %+v, %v", whole, err)
	}
	if half, err := verify(trail[:4]); err != nil || half.Count != 4 {
		t.Errorf("got %+v, %v", half, err)
	} else if end, err := domain.VerifyAudit(half, trail[4:]); err != nil || end != whole {
		t.Errorf("got %+v, %v, want %+v", end, err, whole)
	}

	const at = 4 // the record that is changed, number 5
	edits := map[string]func(r *domain.AuditRecord){
		"time": func(r *domain.AuditRecord) { r.Time = r.Time.Add(time.Nanosecond) },
	}
	// Every other field of a record.
	var each func(name string, v reflect.Value, of func(r *domain.AuditRecord) reflect.Value)
	each = func(name string, v reflect.Value, of func(r *domain.AuditRecord) reflect.Value) {
		for i := range v.NumField() {
			field := name + v.Type().Field(i).Name
			member := func(r *domain.AuditRecord) reflect.Value { return of(r).Field(i) }
			switch v.Field(i).Interface().(type) {
			case string, domain.PresetStatus:
				edits[field] = func(r *domain.AuditRecord) { member(r).SetString(member(r).String() + "x") }
			case int:
				edits[field] = func(r *domain.AuditRecord) { member(r).SetInt(member(r).Int() + 1) }
			case domain.AuditHash:
				edits[field] = func(r *domain.AuditRecord) { first := member(r).Index(0); first.SetUint(first.Uint() ^ 1) }
			case domain.AuditObject:
				each(field+".", v.Field(i), member)
			case []diff.FieldChange:
				edits[field] = func(r *domain.AuditRecord) { member(r).Set(reflect.ValueOf([]diff.FieldChange{{Field: "/x"}})) }
			case time.Time:
			default:
				t.Fatalf("no test changes %s", field)
			}
		}
	}
	each("", reflect.ValueOf(domain.AuditRecord{}), func(r *domain.AuditRecord) reflect.Value { return reflect.ValueOf(r).Elem() })
	if len(edits) < 15 {
		t.Errorf("only %d fields are changed", len(edits))
	}
	says := map[string]string{"Number": "audit record 6 stands where number 5 should", "Previous": "audit record 5 does not follow from the one before it"}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			records := slices.Clone(trail)
			edit(&records[at])
			want := says[name]
			if want == "" {
				want = "audit record 5 is not what it was written as"
			}
			if head, err := verify(records); err == nil || err.Error() != want || head.Count != at {
				t.Errorf("got %+v, %v, want %q", head, err, want)
			}
		})
	}
	for name, tc := range map[string]struct {
		records []domain.AuditRecord
		says    string
	}{
		"removed":    {slices.Delete(slices.Clone(trail), at, at+1), "audit record 6 stands where number 5 should"},
		"twice":      {slices.Insert(slices.Clone(trail), at, trail[at]), "audit record 5 stands where number 6 should"},
		"no start":   {trail[1:], "audit record 2 stands where number 1 should"},
		"other past": {append(slices.Clone(audited(t).trail(t)[:at]), trail[at:]...), "audit record 5 does not follow from the one before it"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := verify(tc.records); err == nil || err.Error() != tc.says {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
	// A removal at the end shows in comparison with an earlier head.
	if head, err := verify(trail[:len(trail)-1]); err != nil || head == whole {
		t.Errorf("got %+v, %v", head, err)
	}
}

// Every later version verifies a trail that an earlier one wrote.
func TestAuditOfAnOlderVersion(t *testing.T) {
	var head domain.AuditHead
	for _, line := range []string{
		`{"number":1,"time":"2026-11-21T21:36:43.635Z","key_id":"","user_id":"system","request_id":"","operation":"workspace.create","object":{"kind":"workspace","id":"01a2000a-4873-7b30-9763-01fcd62b4b6f","workspace_id":"01a2000a-4873-7b30-9763-01fcd62b4b6f","slug":"default"},"version_before":0,"version_after":0,"previous":"0000000000000000000000000000000000000000000000000000000000000000","hash":"4400cc14f662d11d4c3ce71ad52be2bd3e8319800def44f6ff83d46995ff6be8"}`,
	} {
		var r domain.AuditRecord
		if err := jsonv2.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		var err error
		if head, err = domain.VerifyAudit(head, []domain.AuditRecord{r}); err != nil {
			t.Error(err)
		}
	}
}
