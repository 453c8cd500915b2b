package usage_test

import (
	"encoding/base64"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// secret is that of the tests' store.
var secret = domain.FeedbackSecret{1, 2, 3}

// answered returns some request as a handle has it.
func answered(r *rand.Rand) usage.Answered {
	texts := []string{"", "production", "config-inference-1", uuid.NewString(), strings.ToUpper(uuid.NewString()), strings.Repeat("ü", usage.MaxText/2)}
	text := func() string { return texts[r.IntN(len(texts))] }
	return usage.Answered{
		ID: usage.NewRequestID(), Start: now.Add(-time.Duration(r.IntN(86400)) * time.Second),
		Key: usage.Key{
			PresetID: text(), Version: []int{0, 1, 300, math.MaxInt}[r.IntN(4)], Label: text(), KeyID: text(), StatusClass: r.IntN(6),
		},
	}
}

// TestHandles reads what it made, and nothing that differs in one character.
func TestHandles(t *testing.T) {
	tier.NoRace(t)
	r := rand.New(rand.NewPCG(7, 8))
	handles, others := usage.NewHandles(secret), usage.NewHandles(domain.FeedbackSecret{9})
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	longest := 0
	for range 300 {
		want := answered(r)
		handle := handles.New(want)
		longest = max(longest, len(handle))
		if got, err := handles.Read(handle, now); err != nil || got != want {
			t.Fatalf("%s: got %+v and %v, want %+v", handle, got, err, want)
		}
		if strings.Trim(handle, alphabet) != "" {
			t.Errorf("%q has characters that a header or a URL may change", handle)
		}
		refused := func(text string) {
			t.Helper()
			if got, err := handles.Read(text, now); !errors.Is(err, usage.ErrHandle) || got != (usage.Answered{}) {
				t.Errorf("%q beside %q: got %+v and %v, want nothing and ErrHandle", text, handle, got, err)
			}
		}
		if _, err := others.Read(handle, now); !errors.Is(err, usage.ErrHandle) {
			t.Errorf("the handle of another store: got error %v, want ErrHandle", err)
		}
		place := r.IntN(len(handle))
		for _, c := range alphabet {
			if changed := handle[:place] + string(c) + handle[place+1:]; changed != handle {
				refused(changed)
			}
		}
		for _, changed := range []string{handle[:place], handle[place+1:], handle + "A", handle + "=", handle[:place] + "\n" + handle[place:], " " + handle, handle + handle} {
			refused(changed)
		}
	}
	t.Logf("the longest handle has %d characters", longest)
	usual := handles.New(usage.Answered{Start: now, Key: usage.Key{PresetID: uuid.NewString(), KeyID: uuid.NewString(), Label: "production", Version: 3, StatusClass: 2}})
	if len(usual) > 160 {
		t.Errorf("a usual handle has %d characters, want at most 160", len(usual))
	}
}

// TestHandleIsOld reads a handle for a day.
func TestHandleIsOld(t *testing.T) {
	handles := usage.NewHandles(secret)
	start := now.Truncate(time.Second)
	handle := handles.New(usage.Answered{Start: start})
	for age, want := range map[time.Duration]error{
		-time.Hour: nil, 0: nil, usage.FeedbackAge: nil, usage.FeedbackAge + time.Second: usage.ErrHandleOld,
	} {
		if _, err := handles.Read(handle, start.Add(age)); !errors.Is(err, want) {
			t.Errorf("after %v: got error %v, want %v", age, err, want)
		}
	}
}

// FuzzHandle reads any text. It accepts only what New returns.
func FuzzHandle(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	handles := usage.NewHandles(secret)
	for range 5 {
		handle := handles.New(answered(r))
		f.Add(handle)
		content, err := base64.RawURLEncoding.DecodeString(handle)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(base64.StdEncoding.EncodeToString(content))
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := handles.Read(text, now)
		if err != nil {
			if a != (usage.Answered{}) {
				t.Errorf("%q: got %+v beside the error %v", text, a, err)
			}
			return
		}
		if again := handles.New(a); again != text {
			t.Errorf("%q was accepted, and is not the handle %q", text, again)
		}
	})
}
