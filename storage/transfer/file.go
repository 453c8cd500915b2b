package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// file reads the lines of an export. It checks each line against the lines before it.
type file struct {
	r      *bufio.Reader
	number int    // the number of the last line that was read
	raw    []byte // the last line that was read
	sums   sums   // of the lines before it
	order  order
}

// sums are two SHA-256 sums: one of all lines, and one of the lines that Summary.Digest
// covers.
type sums struct{ all, content hash.Hash }

func newSums() sums { return sums{sha256.New(), sha256.New()} }

// add adds a line. Hashes never fail.
func (s sums) add(l line, raw []byte) {
	_, _ = s.all.Write(raw)
	if l.Export == nil && l.Answer == nil && l.End == nil {
		_, _ = s.content.Write(raw)
	}
}

func (s sums) sum() (sum sum) {
	s.all.Sum(sum[:0])
	return sum
}

func (s sums) digest() string { return "sha256:" + hex.EncodeToString(s.content.Sum(nil)) }

func newFile(r io.Reader) *file {
	return &file{r: bufio.NewReaderSize(r, 64<<10), sums: newSums()}
}

// next returns the next line. The line with End is the last one. It is returned only if the
// whole file was read and is correct.
func (f *file) next() (l line, err error) {
	f.sums.add(f.order.last, f.raw)
	if err := f.read(); err != nil {
		return l, err
	}
	if f.number == 1 {
		switch version, err := decodeHeader(f.raw); {
		case err != nil:
			return l, refused(1, "%w", err)
		case version != formatVersion:
			return l, refused(1, "%w", versionError(version))
		}
	}
	if l, err = decode(f.raw); err == nil {
		err = f.order.take(l)
	}
	if err == nil && l.End != nil {
		err = f.ended(*l.End)
	}
	if err != nil {
		return l, refused(f.number, "%w", err)
	}
	return l, nil
}

// versionError is the error for a file of another version. It is ErrVersion.
type versionError int

func (e versionError) Error() string {
	return fmt.Sprintf("the export has version %d, and this server knows version %d only", int(e), formatVersion)
}

func (versionError) Is(target error) bool { return target == ErrVersion }

// read reads a line, including its line break, into f.raw.
func (f *file) read() error {
	f.raw = f.raw[:0]
	f.number++
	for {
		part, err := f.r.ReadSlice('\n')
		f.raw = append(f.raw, part...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, bufio.ErrBufferFull) && len(f.raw) <= maxLine:
		case errors.Is(err, bufio.ErrBufferFull):
			return refused(f.number, "it is longer than any that an export has")
		case err == io.EOF:
			return refused(f.number, "the file ends here, before its last line: it was cut short")
		default:
			return fmt.Errorf("reading line %d: %w", f.number, err)
		}
	}
}

// ended checks the last line, and that no more follows.
func (f *file) ended(end trailer) error {
	if end.Counts != f.order.counts {
		return errors.New("there were more or fewer lines than it says")
	}
	if end.Sum != f.sums.sum() {
		return errors.New("the lines before are not those that it was written for: the file was changed")
	}
	switch _, err := f.r.Peek(1); {
	case err == nil:
		return errors.New("something follows it, and it should be the last")
	case err != io.EOF:
		return fmt.Errorf("reading on: %w", err)
	}
	return nil
}

func (f *file) summary() Summary {
	return Summary{CreatedAt: f.order.created, Counts: f.order.counts, Digest: f.sums.digest()}
}
