package records

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// Checker reads every record of a snapshot, in key order. It checks each record, and that
// the records agree with each other. A Checker is good for one Check.
type Checker struct {
	// Report gets the number of records that were read, and each damaged or missing record. If
	// it has problems, those that may follow from them are not reported.
	Report *storage.Report
	// Pause is called between records now and then. An error ends the check.
	Pause func() error

	reader Reader

	deleted map[uuid.UUID]bool // workspaces and presets that are being purged
	audit   domain.AuditHead   // the last audit record that was read
	ended   bool               // the record of the trail's end was read
	// The sums of the keys that other records lead to, less those that were found. They are
	// for records that lead to no others.
	seed maphash.Seed
	sums map[string]uint64 // by what is wrong unless it is 0
}

// What is wrong with records that nothing leads to, or that are missing.
const (
	strayVersions  = "there are versions that no preset has"
	strayChanges   = "there are changes that no label has"
	wrongHashes    = "the hashes of issued keys are not those of the keys"
	wrongHistories = "the histories of presets and workspaces are not what the audit trail says"
	wrongLists     = "the lists of presets and workspaces do not have what is stored"
	wrongCounts    = "the lists of presets and workspaces do not count what they have"
)

// expect records that n records under k must be found, and find that one was.
func (c *Checker) expect(unless string, k Key, n uint64) { c.sums[unless] += n * c.hash(k) }
func (c *Checker) find(unless string, k Key)             { c.sums[unless] -= c.hash(k) }

// checksBetweenPauses is the number of records between two pauses.
const checksBetweenPauses = 256

// Check returns the error that ended it early. That is an error of Pause or of the engine,
// for example while its servers are away. Damage is reported as a problem, also where the
// engine panics.
func (c *Checker) Check(s Snapshot) error {
	c.reader = Reader{snapshot: s}
	err := c.check()
	if errors.Is(err, storage.ErrDamaged) {
		c.report("%v; not all records were read", err)
		return nil
	}
	return err
}

// isOutage reports whether err is that of an engine that cannot read, which is no damage.
func isOutage(err error) bool {
	return errors.Is(err, domain.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// wrong returns the error of a record that does not agree with others. err is that of reading
// the others, or nil.
func wrong(of Kind, how string, err error) error {
	if isOutage(err) {
		return err
	}
	return damaged(of, how)
}

func (c *Checker) report(format string, args ...any) {
	c.Report.AddProblem(format, args...)
}

func (c *Checker) check() error {
	c.seed, c.sums, c.deleted = maphash.MakeSeed(), make(map[string]uint64), make(map[uuid.UUID]bool)
	for k, err := range each(&c.reader, KindDeleted.Prefix(), keyAt) {
		if err != nil {
			return err
		}
		if id, err := uuid.FromBytes(k[2:]); err == nil {
			c.deleted[id] = true
		}
	}
	err := eachRecord(c.reader.snapshot, func(k Key, record []byte, err error) error {
		c.Report.Records++
		if c.Report.Records%checksBetweenPauses == 0 {
			if err := c.Pause(); err != nil {
				return err
			}
		}
		if err == nil {
			err = reading(k.Kind(), func() error { return c.checkRecord(k, record[recordHeader:]) })
		}
		if isOutage(err) {
			return err
		}
		if err != nil {
			c.report("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.nameMissing(); err != nil {
		return err
	}
	c.checkSums()
	return nil
}

// checkRecord checks a record and the records that it leads to. The text of its error
// quotes no stored content.
func (c *Checker) checkRecord(k Key, payload []byte) error {
	wrong := func(how string, err error) error { return wrong(k.Kind(), how, err) }
	name := k[2:]
	switch k.Kind() {
	case KindWorkspace:
		return c.checkWorkspace(k, payload)
	case KindWorkspaceSlug:
		id, err := decodePayload(k, payload, decodeID)
		if err != nil {
			return err
		}
		if w, err := c.reader.Workspace(id); err != nil || w.Slug != string(name) {
			return wrong("its workspace is not there, or has another slug", err)
		}
	case KindPreset:
		return c.checkPreset(k, payload)
	case KindVersion:
		return c.checkVersion(k, payload)
	case KindLabel:
		n, err := decodeNumber(payload)
		if err != nil || n < 1 || n > math.MaxInt32 || len(name) < len(uuid.UUID{}) {
			return wrong("its content cannot be decoded", nil)
		}
		id, label := uuid.UUID(name[:len(uuid.UUID{})]).String(), string(name[len(uuid.UUID{}):])
		for i := range int(n) {
			change := LabelChangeKey(id, label, i+1)
			if _, err := load(&c.reader, change, decodeBytes); err != nil {
				return wrong("not all of its changes are there", err)
			}
			c.expect(strayChanges, change, 1)
		}
	case KindLabelChange:
		c.find(strayChanges, k)
		return decodes(k, payload, decodeJSON[domain.LabelChange])
	case KindKey:
		issued, err := decodePayload(k, payload, decodeJSON[domain.Key])
		if err != nil {
			return err
		}
		for _, hash := range issued.Hashes() {
			if id, err := load(&c.reader, KeyHashKey(hash), decodeID); err != nil || id != issued.ID {
				return wrong("it cannot be found by its hash", err)
			}
			c.expect(wrongHashes, KeyHashKey(hash), 1)
		}
	case KindKeyHash:
		c.find(wrongHashes, k)
	case KindAudit:
		a, err := decodeJSON[domain.AuditRecord](payload)
		if err == nil {
			c.audit, err = domain.VerifyAudit(c.audit, []domain.AuditRecord{a})
		}
		if err != nil {
			c.audit = domain.AuditHead{Count: a.Number, Hash: a.Hash} // so that the break is reported once
			return wrong("it does not follow the one before", nil)
		}
		for _, id := range concerned(a) {
			c.expect(wrongHistories, entryKey(id, a.Number), 1)
			c.expect(wrongHistories, historyKey(id), 1)
		}
	case KindHistory:
		n, err := decodePayload(k, payload, decodeNumber)
		c.sums[wrongHistories] -= n * c.hash(k)
		return err
	case KindHistoryEntry:
		c.find(wrongHistories, k)
		return decodes(k, payload, decodeEntry)
	case KindAuditHead:
		head, err := decodeJSON[domain.AuditHead](payload)
		if err != nil || head != c.audit {
			return wrong("the trail does not end with what it says", nil)
		}
		c.ended = true
	case KindUsage:
		row, ok := cutUsageKey(k)
		if !ok {
			return wrong("its key is not that of a row", nil)
		}
		if c.deleted[row.workspace] {
			return nil
		}
		if _, err := c.reader.WorkspaceJSON(row.workspace.String()); err != nil {
			return wrong("its workspace is not there", err)
		}
	case KindServed:
		return c.checkServed(k, payload)
	case KindSpent:
		if len(name) != len(uuid.UUID{}) {
			return wrong("its key is not that of an object", nil)
		}
	case KindInput:
		if len(name) != 2*len(uuid.UUID{}) {
			return wrong("its key is not that of an input", nil)
		}
		return decodes(k, payload, decodeObject)
	case KindFeedback:
		if len(name) > 0 {
			return wrong("its key is not that of the secret", nil)
		}
		return decodes(k, payload, decodeFeedbackSecret)
	case KindReplay:
		return decodes(k, payload, decodeReplay)
	case KindListHead:
		head, err := decodePayload(k, payload, decodeListHead)
		if err != nil || c.gone(list(name)) {
			return err
		}
		for state, n := range head.counts {
			c.expect(wrongCounts, list(name).stateKey(byte(state)), n)
		}
	case KindListBlock:
		return c.checkBlock(k, payload)
	case KindSequence:
		return decodes(k, payload, decodeNumber)
	case KindDeleted:
		if id, err := uuid.FromBytes(name); err == nil {
			if _, err := c.reader.WorkspaceJSON(id.String()); err == nil {
				return wrong("its workspace is there", nil)
			}
		}
	default:
		return wrong("it is not one of ours", nil)
	}
	return nil
}

// decodes returns an error unless the payload of the record under k can be decoded.
func decodes[T any](k Key, payload []byte, decode func([]byte) (T, error)) error {
	_, err := decodePayload(k, payload, decode)
	return err
}

func (c *Checker) checkWorkspace(k Key, payload []byte) error {
	stored, _ := parseWorkspace(payload)
	w, err := decodePayload(k, payload, decodeWorkspace)
	if err != nil {
		return err
	}
	if !bytes.Equal(WorkspaceKey(w.ID), k) {
		return damaged(KindWorkspace, "it is not the one that it should be")
	}
	if id, err := c.reader.WorkspaceID(w.Slug); err != nil || id != w.ID {
		return wrong(KindWorkspace, "it cannot be found by its slug", err)
	}
	return c.checkListed(workspaces(), k, spot{place: stored.place})
}

func (c *Checker) checkPreset(k Key, payload []byte) error {
	stored, _ := parsePreset(payload)
	p, err := decodePayload(k, payload, decodePreset)
	if err != nil {
		return err
	}
	if !bytes.Equal(PresetKey(p.WorkspaceID, p.Slug), k) {
		return damaged(KindPreset, "it is not the one that it should be")
	}
	id, _ := parseID(p.WorkspaceID)
	if c.deleted[id] {
		return nil
	}
	if _, err := c.reader.WorkspaceJSON(p.WorkspaceID); err != nil {
		return wrong(KindPreset, "its workspace is not there", err)
	}
	if p.LatestVersion > math.MaxInt32 {
		return damaged(KindPreset, "it has more versions than there can be")
	}
	for n := range p.State().Versions() {
		if n%checksBetweenPauses == 0 {
			if err := c.Pause(); err != nil {
				return err
			}
		}
		c.expect(strayVersions, VersionKey(p.ID, n), 1)
	}
	if !p.State().Has(p.DesignatedVersion) {
		return damaged(KindPreset, "the version that it designates is not there")
	}
	for label, target := range p.Labels {
		if err := target.Check(p); err != nil {
			return wrong(KindPreset, "a label of it cannot be", err)
		}
		if n, err := c.reader.LabelChanges(p, label); err != nil || n < 1 {
			return wrong(KindPreset, "a label of it is not there", err)
		}
	}
	if p.Status != stored.Status {
		return damaged(KindPreset, "it has two statuses")
	}
	l, _ := presetsOf(p.WorkspaceID)
	return c.checkListed(l, k, stored.spot)
}

func (c *Checker) checkVersion(k Key, payload []byte) error {
	v, err := decodePayload(k, payload, decodeVersion)
	if err != nil {
		return err
	}
	if !bytes.Equal(VersionKey(v.PresetID, v.Version), k) {
		return damaged(KindVersion, "it is not the one that it should be")
	}
	c.find(strayVersions, k)
	return nil
}

// nameMissing reports which versions are missing or damaged, where the sums tell that some are.
func (c *Checker) nameMissing() error {
	if c.sums[strayVersions] == 0 {
		return nil
	}
	for k, err := range each(&c.reader, KindPreset.Prefix(), keyAt) {
		if err != nil {
			return err
		}
		p, err := load(&c.reader, k, decodePreset)
		if isOutage(err) {
			return err
		}
		workspace, _ := parseID(p.WorkspaceID)
		if err != nil || c.deleted[workspace] {
			continue // a damaged preset was reported
		}
		if err := c.Pause(); err != nil {
			return err
		}
		for n := range p.State().Versions() {
			_, missing := c.reader.PresetVersionJSON(p.State(), n)
			if isOutage(missing) {
				return missing
			}
			if missing != nil {
				c.report("preset %s: version %d: %v", p.ID, n, missing)
			}
			if c.Report.More > 0 { // a report names no more
				return nil
			}
		}
	}
	return nil
}

// checkListed checks that the object under k is in its block of a list, with its state.
func (c *Checker) checkListed(l list, k Key, at spot) error {
	c.expect(wrongLists, l.stateKey(at.state), 1)
	_, err := load(&c.reader, l.blockKey(at.place), func(block []byte) ([]byte, error) { return removeName(block, at.state, l.nameOf(k)) })
	if err != nil {
		return wrong(k.Kind(), "it is not at its place in the list", err)
	}
	return nil
}

// checkBlock adds up the objects in a block of a list.
func (c *Checker) checkBlock(k Key, block []byte) error {
	l := list(k[2:max(2, len(k)-8)])
	if c.gone(l) {
		return nil
	}
	for len(block) > 0 {
		state, _, rest, err := cutName(block)
		if err != nil {
			return damaged(KindListBlock, "its content cannot be decoded")
		}
		c.find(wrongLists, l.stateKey(state))
		c.find(wrongCounts, l.stateKey(state))
		block = rest
	}
	return nil
}

// stateKey stands for the objects of a state in a list.
func (l list) stateKey(state byte) Key { return append(Key(slices.Clip(l)), state) }

// gone reports whether l is the list of a deleted workspace.
func (c *Checker) gone(l list) bool {
	return len(l) == 1+len(uuid.UUID{}) && l[0] == byte(KindPreset) && c.deleted[uuid.UUID(l[1:1+len(uuid.UUID{})])]
}

// checkSums finds records that nothing leads to.
func (c *Checker) checkSums() {
	if c.audit.Count > 0 && !c.ended {
		c.report("the audit trail has no end")
	}
	if len(c.Report.Problems) > 0 {
		return
	}
	for _, what := range []string{wrongHashes, wrongHistories, wrongLists, wrongCounts, strayVersions, strayChanges} {
		isLeft := len(c.deleted) > 0 && (what == strayVersions || what == strayChanges) // by a purge that goes on
		if c.sums[what] != 0 && !isLeft {
			c.report("%s", what)
		}
	}
}

func (c *Checker) hash(k Key) uint64 { return maphash.Bytes(c.seed, k) }
