package terminal

import (
	"io"
	"sync/atomic"

	"github.com/dustin/go-humanize"
)

// Progress is a reader that counts the bytes that are read, and shows them on a terminal. Its
// methods Bytes and Show may be called during a Read.
type Progress struct {
	*Meter
	from  io.Reader
	bytes atomic.Int64
	// rest is shown behind the bytes. Only the goroutine that reads may use it.
	rest string
}

// NewProgress returns the progress of a reader of total bytes, 0 if that is not known.
func NewProgress(to io.Writer, from io.Reader, total int64) *Progress {
	p := &Progress{Meter: NewMeter(to), from: from}
	if total > 0 {
		p.rest = " of " + humanize.IBytes(uint64(total))
	}
	return p
}

func (p *Progress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.bytes.Add(int64(n))
	p.Show(func() string { return humanize.IBytes(uint64(p.Bytes())) + p.rest })
	return n, err
}

// Bytes returns how many bytes were read.
func (p *Progress) Bytes() int64 { return p.bytes.Load() }

// Estimate shows how many bytes the reader has in all. records is how many records were read, of
// about how many. The bytes are taken to be spread evenly over them.
func (p *Progress) Estimate(records, about int) {
	if records > 0 {
		p.rest = " of about " + humanize.IBytes(uint64(float64(p.Bytes())*float64(about)/float64(records)))
	}
}
