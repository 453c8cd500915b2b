package badger

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// maxVerifyMemory is how much of a backup VerifyBackup holds in memory, in bytes. The
// records of a larger one go to a temporary file.
const maxVerifyMemory = 64 << 20

// BackupVerification says how VerifyBackup works. The zero value is for a backup that is not
// encrypted.
type BackupVerification struct {
	// Key is the key of an encrypted backup. With a key, a backup that is not encrypted is
	// refused: someone may have replaced it.
	Key []byte
	// Folder is where the temporary file of a large backup is made. Empty means the
	// system's folder for such files.
	Folder string
	// Spill, if it is set, is called before the temporary file is made. size is the disk
	// space that it takes, in bytes. An error ends the verification.
	Spill func(folder string, size int64) error
	// Progress, if it is set, is called often. It first gets the bytes that were read of
	// size. Then it gets the records that were compared of all.
	Progress func(unit ProgressUnit, done, all int64)

	memory int64 // maxVerifyMemory; only tests change it
}

// ProgressUnit is what a progress counts.
type ProgressUnit string

// The units of VerifyBackup, in their order.
const (
	ProgressBytes   ProgressUnit = "bytes"
	ProgressRecords ProgressUnit = "records"
)

// VerifyBackup reads a whole backup of size bytes, and makes no store of it. It finds what
// Restore refuses, and what Verify would find in the restored store. These are records that
// are damaged, missing, or do not agree with each other.
//
// An error about the backup has ErrNotRestorable in its chain. If the backup was changed, cut
// short or damaged, the error has storage.ErrDamaged, too. Other damage is in the report.
//
// If the records have 64 MiB at most, they are held in memory. Otherwise a temporary file as
// large as they are holds them. The file is encrypted with a key that is never stored, and it
// is removed at the end. Besides that, VerifyBackup needs memory for a few chunks and 64 blocks.
func VerifyBackup(ctx context.Context, backup io.ReadSeeker, size int64, by BackupVerification) (info BackupInfo, end BackupEnd, report storage.Report, err error) {
	v := verification{BackupVerification: by, ctx: ctx, backup: backup, size: size}
	if v.memory == 0 {
		v.memory = maxVerifyMemory
	}
	if v.Progress == nil {
		v.Progress = func(ProgressUnit, int64, int64) {}
	}
	err = v.run()
	return v.info, v.end, v.report, err
}

// verification is one call of VerifyBackup.
type verification struct {
	BackupVerification
	ctx    context.Context
	backup io.ReadSeeker
	size   int64
	done   int64 // bytes that were read

	info   BackupInfo
	end    BackupEnd
	report storage.Report
}

func (v *verification) run() error {
	held := newSpool(nil)
	total, err := v.read(held)
	if err != nil {
		return err
	}
	if total > v.memory {
		if held, err = v.spill(total); err != nil {
			return err
		}
		defer held.remove()
	}
	return v.compare(held)
}

// spill reads the backup again, into a temporary file.
func (v *verification) spill(total int64) (*spool, error) {
	file, folder, err := newScratch(v.Folder)
	if err != nil {
		return nil, err
	}
	held := newSpool(file)
	err = v.afford(folder, total)
	if err == nil {
		_, err = v.backup.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = v.read(held)
	}
	if err != nil {
		held.remove()
		return nil, err
	}
	return held, nil
}

// afford fails if a folder lacks the space for a temporary file.
func (v *verification) afford(folder string, size int64) error {
	if v.Spill != nil {
		if err := v.Spill(folder, size); err != nil {
			return err
		}
	}
	free, err := freeSpace(folder)
	if err == nil && free < uint64(size) {
		err = fmt.Errorf("verifying takes %d bytes in %s for a while, and %d are free", size, folder, free)
	}
	return err
}

// read reads the backup to its end. It adds the records that have not expired to a spool. A
// spool in memory has none of them if they are too large. read returns their size in the spool.
func (v *verification) read(to *spool) (total int64, err error) {
	from, err := v.open()
	if err != nil {
		return 0, err
	}
	d, now := newDigest(), uint64(time.Now().Unix())
	for from.next() {
		if err := v.ctx.Err(); err != nil {
			return 0, err
		}
		d.add(from.key, from.record)
		if from.expires != 0 && from.expires <= now {
			continue
		}
		total += entrySize(from.key, from.record)
		switch {
		case to.file != nil || total <= v.memory:
			if err := to.add(from.key, from.record); err != nil {
				return 0, err
			}
		default:
			to.blocks, to.open = nil, nil
		}
	}
	if from.err != nil {
		return 0, from.err
	}
	v.end = from.end
	if err := v.end.check(d); err != nil {
		return 0, err
	}
	return total, to.flush()
}

func (v *verification) open() (*backupReader, error) {
	v.done = 0
	from := bufio.NewReaderSize(readerFunc(v.readSome), 64<<10)
	info, lines, err := readInfo(from)
	if err != nil {
		return nil, err
	}
	v.info = info
	if err := info.checkEncrypted(v.Key); err != nil {
		return nil, err
	}
	return newBackupReader(info, lines, from, v.Key)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// readSome reads from the backup, and tells the progress.
func (v *verification) readSome(p []byte) (int, error) {
	n, err := v.backup.Read(p)
	v.done += int64(n)
	v.Progress(ProgressBytes, v.done, v.size)
	return n, err
}

// compare compares the records with each other.
func (v *verification) compare(held *spool) error {
	commit, err := records.NewReader(held).LastCommit()
	if err = cmp.Or(err, v.info.checkCommit(commit)); err != nil {
		return cmp.Or(held.failed, err)
	}
	c := records.Checker{Report: &v.report}
	c.Pause = func() error {
		v.Progress(ProgressRecords, int64(v.report.Records), int64(v.end.Entries))
		return v.ctx.Err()
	}
	if err := c.Pause(); err != nil {
		return err
	}
	err = c.Check(held)
	return cmp.Or(held.failed, err)
}
