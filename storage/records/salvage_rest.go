package records

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// readKeys reads the issued keys. A key is revoked if its revocation may be lost: a revoked
// key must never be live again. A key that the audit trail says was removed is neither copied
// nor lost. An older copy of it may be whole.
func (s *salvager) readKeys() {
	known := make(map[string]bool)
	for id, records := range s.byID {
		known[id] = slices.ContainsFunc(records, func(a audited) bool { return a.Operation == "key.remove" })
	}
	for _, k := range s.found[KindKey] {
		issued, version, ok := find(s, k, decodeJSON[domain.Key])
		if !ok || !bytes.Equal(KeyKey(issued.ID), k) {
			s.reportUnusable("key", k, "the record cannot be decoded")
			continue
		}
		if known[issued.ID] { // removed
			continue
		}
		known[issued.ID] = true
		holder, hashed, found := find(s, KeyHashKey(issued.Hash), decodeID)
		if found && (holder != issued.ID || hashed > version) {
			s.reportLoss(storage.Loss{Kind: "key", ID: issued.ID, What: "its newest state is lost: it was not copied"})
			continue
		}
		for _, a := range s.byID[issued.ID] { // whenever: a revoked key stays revoked
			if a.Operation == "key.revoke" && issued.RevokedAt == nil {
				issued.RevokedAt = new(a.Time)
			}
		}
		mayBeRevoked := s.Incomplete || !s.trailWhole && (!found || hashed != version)
		if issued.Live(s.Now) && mayBeRevoked && !s.KeepKeys {
			now := s.Now.UTC()
			issued.RevokedAt = &now
			s.reportLoss(storage.Loss{Kind: "key", ID: issued.ID, What: "it may have been revoked in a change that is lost: it is revoked now"})
		}
		s.out.keys = append(s.out.keys, issued)
	}
	for _, k := range s.found[KindKeyHash] {
		if id, _, ok := find(s, k, decodeID); ok && !known[id] {
			known[id] = true
			s.reportLoss(storage.Loss{Kind: "key", ID: id, What: "the key is lost"})
		}
	}
	for id, records := range s.byID {
		if records[0].Object.Kind == "key" && !known[id] {
			s.reportFromTrail(id, storage.Loss{Kind: "key", ID: id, What: "the key is lost"})
		}
	}
	slices.SortFunc(s.out.keys, func(a, b domain.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
}

// readRest reads usage, kept answers and the secret of feedback.
func (s *salvager) readRest() {
	for _, k := range s.found[KindUsage] {
		row, ok := cutUsageKey(k)
		switch {
		case !ok:
			s.reportUnusable("usage", k, "the record cannot be decoded")
		case s.slugs[row.workspace.String()] != "":
			r := row.row()
			r.Content = s.Records[string(k)].Record[recordHeader:]
			s.out.usage = append(s.out.usage, r)
		case !s.isDeleted(row.workspace.String()):
			s.reportLoss(storage.Loss{Kind: "usage", WorkspaceID: row.workspace.String(), ID: hex.EncodeToString(k), What: "its workspace is lost"})
		}
	}
	for _, k := range s.found[KindReplay] {
		r, _, ok := find(s, k, decodeReplay)
		if !ok || len(k) != 2+len(r.ID) {
			s.reportUnusable("answer", k, "the record cannot be decoded")
			continue
		}
		r.ID = domain.ReplayID(k[2:])
		s.out.replays = append(s.out.replays, r)
	}
	if secret, _, ok := find(s, feedbackKey(), decodeFeedbackSecret); ok {
		s.out.feedback = &secret
	}
	for _, k := range s.found[KindServed] {
		if len(k) > 2+len(uuid.UUID{}) {
			id, slug := uuid.UUID(k[2:2+len(uuid.UUID{})]).String(), string(k[2+len(uuid.UUID{}):])
			if !s.isDeleted(id) && !slices.ContainsFunc(s.out.presets, func(p salvagedPreset) bool { return p.WorkspaceID == id && p.Slug == slug }) {
				s.reportLoss(storage.Loss{Kind: "served", Workspace: s.slugs[id], WorkspaceID: id, Preset: slug, What: "its preset is lost"})
			}
		}
	}
}

// salvageBatch bounds the size of one change of Store, in bytes, and salvageObjects its objects.
const (
	salvageBatch   = domain.MaxChangeSize / 2
	salvageObjects = domain.MaxChangeObjects / 2
)

// Store puts everything into a new store. update makes one change. id is that of the new
// store, and now the time of the salvage. It returns the number of objects of each kind.
// It makes several changes. After an error, the earlier ones stay.
func (s *Salvaged) Store(id string, now time.Time, update func(func(domain.Tx) error) error) (n storage.Copied, err error) {
	b := &salvageWriter{update: update}
	var head domain.AuditHead
	for _, a := range s.trail {
		b.put(len(a.text), func(tx domain.Tx) error { return tx.PutAudit(a.AuditRecord, a.text) })
		head = domain.AuditHead{Count: a.Number, Hash: a.Hash}
		n.Audit++
	}
	for _, w := range s.workspaces {
		b.put(4<<10, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
		n.Workspaces++
	}
	for _, p := range s.presets {
		for _, v := range p.versions {
			b.put(len(v.Config), func(tx domain.Tx) error { return tx.PutPresetVersion(p.Preset, v) })
			n.Versions++
		}
		for label, changes := range p.labels {
			for _, c := range changes {
				b.put(1<<10, func(tx domain.Tx) error { return tx.PutLabelChange(p.Preset, label, c) })
				n.LabelChanges++
			}
		}
		b.put(32<<10, func(tx domain.Tx) error { return tx.PutPreset(p.Preset) })
		n.Presets++
		if p.served != nil {
			b.put(8*len(p.served), func(tx domain.Tx) error { return tx.PutServed(p.WorkspaceID, p.Slug, p.served) })
			n.Served++
		}
	}
	for _, row := range s.usage {
		b.put(len(row.Content), func(tx domain.Tx) error { return tx.PutUsage(row) })
		n.Usage++
	}
	for _, r := range s.replays {
		b.put(len(r.Answer), func(tx domain.Tx) error { return tx.PutReplay(r) })
		n.Answers++
	}
	for _, k := range s.keys {
		b.put(1<<10, func(tx domain.Tx) error { return tx.PutKey(k) })
		n.Keys++
	}
	if s.feedback != nil {
		b.put(64, func(tx domain.Tx) error { return tx.PutFeedbackSecret(*s.feedback) })
	}
	record, text, err := domain.NewSalvageRecord(head, now, id, s.message())
	if err != nil {
		return n, err
	}
	b.put(len(text), func(tx domain.Tx) error { return tx.PutAudit(record, text) })
	n.Audit++
	b.flush()
	return n, b.err
}

// message says in the audit trail what of it is lost.
func (s *Salvaged) message() string {
	var text strings.Builder
	text.WriteString("copied from a damaged store")
	for _, l := range s.Lost {
		if l.Kind == "audit" && l.First > 0 && text.Len() < 400 {
			text.WriteString("; audit records " + fmt.Sprintf("%d to %d", l.First, l.Last) + ": " + l.What)
		}
	}
	return text.String()
}

// salvageWriter puts objects in changes that every engine takes.
type salvageWriter struct {
	update func(func(domain.Tx) error) error
	batch  []func(domain.Tx) error
	size   int
	err    error
}

func (b *salvageWriter) put(size int, put func(domain.Tx) error) {
	if b.size += size + 2<<10; b.size > salvageBatch && len(b.batch) > 0 || len(b.batch) >= salvageObjects {
		b.flush()
		b.size = size
	}
	b.batch = append(b.batch, put)
}

func (b *salvageWriter) flush() {
	if b.err == nil && len(b.batch) > 0 {
		b.err = b.store(b.batch)
	}
	b.batch, b.size = nil, 0
}

// store makes one change of a batch, or several if it is too large for one. The sizes that put
// gets are those of usual objects.
func (b *salvageWriter) store(batch []func(domain.Tx) error) error {
	err := b.update(func(tx domain.Tx) error {
		for _, put := range batch {
			if err := put(tx); err != nil {
				return fmt.Errorf("storing a salvaged object: %w", err)
			}
		}
		return nil
	})
	if half := len(batch) / 2; half > 0 && errors.Is(err, domain.ErrTooLarge) {
		if err = b.store(batch[:half]); err == nil {
			err = b.store(batch[half:])
		}
	}
	return err
}
