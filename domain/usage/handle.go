package usage

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

var (
	// ErrHandle is Read's error for a text that is no handle of the store.
	ErrHandle = errors.New("not a handle of this store")
	// ErrHandleOld is Read's error for a handle of a request that is too old for feedback.
	ErrHandleOld = errors.New("handle is too old")
)

// EnsureFeedbackSecret returns the secret of a store. The first call for the store makes it.
// Concurrent calls, also of several nodes, return the same secret.
func EnsureFeedbackSecret(ctx context.Context, store domain.Store) (secret domain.FeedbackSecret, err error) {
	err = store.View(ctx, func(r domain.Reader) (err error) {
		secret, err = r.FeedbackSecret()
		return err
	})
	if !errors.Is(err, domain.ErrNotFound) {
		return secret, err
	}
	var fresh domain.FeedbackSecret
	_, _ = rand.Read(fresh[:]) // never fails: crypto/rand ends the program instead
	err = store.Update(ctx, func(tx domain.Tx) (err error) {
		if secret, err = tx.FeedbackSecret(); !errors.Is(err, domain.ErrNotFound) {
			return err
		}
		secret = fresh
		return tx.PutFeedbackSecret(fresh)
	})
	if err != nil {
		return domain.FeedbackSecret{}, err
	}
	return secret, nil
}

// Handles makes and reads handles: texts that stand for requests, so that feedback can name
// them. A handle has all that feedback needs, so nothing is stored for it. Every node of a
// store understands it. It is authentic, and not encrypted. It is safe for concurrent use.
type Handles struct {
	macs sync.Pool // of hash.Hash, with the secret of the store
}

// A handle is base64url without padding. Its bytes are handleFormat, the ids of preset and
// request, the version, and the status class. Then come the second of the start, the label,
// and the id of the key. The last bytes are a truncated HMAC-SHA256 of those before.
const (
	handleFormat = 1
	handleMAC    = 16
	// maxHandle bounds a handle, in bytes of text.
	maxHandle = 1200
	// usualHandle is the room in which a handle is made, in bytes, with that of a whole HMAC.
	usualHandle = 192
)

// handleEncoding refuses bits that are not read.
var handleEncoding = base64.RawURLEncoding.Strict()

// NewHandles returns the Handles of a store's secret.
func NewHandles(secret domain.FeedbackSecret) *Handles {
	return &Handles{sync.Pool{New: func() any { return hmac.New(sha256.New, secret[:]) }}}
}

// New returns the handle of a request. The preset's slug and the model are not in it.
func (h *Handles) New(a Answered) string {
	content := appendAnswered(make([]byte, 0, usualHandle), a)
	content = h.appendCode(content, content)
	var text [usualHandle * 4 / 3]byte
	return string(handleEncoding.AppendEncode(text[:0], content))
}

// appendCode appends the code of a content to b.
func (h *Handles) appendCode(b, content []byte) []byte {
	mac := h.macs.Get().(hash.Hash)
	defer h.macs.Put(mac)
	mac.Reset()
	mac.Write(content)
	return mac.Sum(b)[:len(b)+handleMAC]
}

// Read returns the request of a handle, without the preset's slug and the model.
func (h *Handles) Read(handle string, now time.Time) (a Answered, err error) {
	if len(handle) > maxHandle {
		return a, ErrHandle
	}
	content, err := handleEncoding.DecodeString(handle)
	if err != nil || len(content) < handleMAC || handleEncoding.EncodeToString(content) != handle { // it had line breaks
		return a, ErrHandle
	}
	content, code := content[:len(content)-handleMAC], content[len(content)-handleMAC:]
	if !hmac.Equal(h.appendCode(nil, content), code) {
		return a, ErrHandle
	}
	a, ok := readAnswered(content)
	switch {
	case !ok:
		return Answered{}, ErrHandle
	case a.isOld(now):
		return Answered{}, ErrHandleOld
	}
	return a, nil
}

// appendAnswered appends the content of a handle.
func appendAnswered(b []byte, a Answered) []byte {
	b = append(b, handleFormat)
	b = appendPart(b, a.Key.PresetID)
	b = append(b, a.ID[:]...)
	b = binary.AppendUvarint(b, uint64(a.Key.Version))
	b = append(b, byte(a.Key.StatusClass))
	b = binary.AppendUvarint(b, uint64(max(a.Start.Unix(), 0)))
	b = appendPart(b, a.Key.Label)
	return appendPart(b, a.Key.KeyID)
}

// readAnswered is the inverse of appendAnswered. What it reads was signed, so it is as appendAnswered
// writes it.
func readAnswered(b []byte) (a Answered, ok bool) {
	if len(b) == 0 || b[0] != handleFormat {
		return a, false
	}
	d := decoder{text: b, at: 1}
	a.Key.PresetID = string(d.part())
	copy(a.ID[:], d.bytes(len(a.ID)))
	a.Key.Version, a.Key.StatusClass = d.integer(), d.integer()
	a.Start = time.Unix(int64(d.integer()), 0).UTC()
	a.Key.Label, a.Key.KeyID = string(d.part()), string(d.part())
	return a, !d.failed && !d.more()
}
