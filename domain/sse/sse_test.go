package sse

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// event is an event of a stream. isWhole tells that its blank line came.
type event struct {
	name, data string
	isWhole    bool
}

// wantEvents reads a stream that ends with a line.
func wantEvents(stream string) (events []event) {
	text := strings.ReplaceAll(stream, "\r\n", "\n")
	var name string
	var data []string
	end := func(isWhole bool) {
		if data != nil {
			events = append(events, event{name, strings.Join(data, "\n"), isWhole})
		}
		name, data = "", nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		field, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimPrefix(value, " "); {
		case line == "":
			end(true)
		case field == "data":
			data = append(data, value)
		case field == "event":
			name = value
		}
	}
	end(false)
	return events
}

// readEvents reads a stream in pieces of a size. raw are the bytes of all parts.
func readEvents(stream []byte, size int) (events []event, raw []byte) {
	var r Reader
	var now event
	var hasData bool
	for piece := range slices.Chunk(stream, size) {
		for r.Feed(piece); r.Next(); {
			raw = append(raw, r.Raw()...)
			switch r.Field {
			case Data:
				if r.Begins && hasData {
					now.data += "\n"
				}
				hasData = true
				now.data += string(r.Value())
				if r.Ends {
					now.data = strings.TrimSuffix(now.data, "\r")
				}
			case Name:
				if r.Begins {
					now.name = ""
				}
				now.name += string(r.Value())
				if r.Ends {
					now.name = strings.TrimSuffix(now.name, "\r")
				}
			case End:
				if now.isWhole = true; hasData {
					events = append(events, now)
				}
				now, hasData = event{}, false
			}
		}
	}
	if hasData {
		events = append(events, now)
	}
	return events, raw
}

// FuzzReader reads any bytes in pieces of any size.
func FuzzReader(f *testing.F) {
	for _, stream := range []string{
		"", "\n", "\r\n\r\n", "data", "data\n\n", "data:\ndata:\n\n", ":data: x\n\n", "data: x\n\ndata: y\n", "data:  two\n\n",
		"event: a\ndata: x\nevent: b\n\ndata: y\n\n", "event: a\r\ndata: x\r\n\r\n", "data: x\r\n\n\r\ndata: y\n\r\n",
		"id: 1\nretry: 5\ndata-x: 1\ndat: 2\ndatas\n data: 3\neventdata: 4\ndata: y\n\n", "event: " + strings.Repeat("e", 40) + "\ndata: x\n\n",
		"data\r\n\r\nevent\r\ndata: x\r\n", "data: x\r\r\n",
	} {
		f.Add([]byte(stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		stream = append(stream, '\n')
		want := wantEvents(string(stream))
		for _, size := range []int{1, 2, 3, 7, len(stream)} {
			got, raw := readEvents(stream, size)
			if !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: got %+v, want %+v", stream, size, got, want)
			}
			if !bytes.Equal(raw, stream) {
				t.Errorf("%q in pieces of %d: the parts are %q", stream, size, raw)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	failure := errors.New("connection reset")
	for _, tc := range []struct {
		name, stream string
		err          error
		want         []string
	}{
		{"nothing", "", nil, nil},
		{"events", "data: a\n\n: wait\n\nevent: x\n\ndata: b\ndata:c\n\n", nil, []string{"a", "b\nc"}},
		{"no blank line", "data: a\n\ndata: b\n", nil, []string{"a", "b"}},
		{"no end of a line", "data: a\n\ndata: b", nil, []string{"a", "b"}},
		{"as long as may be", "data: 1234\ndata: 6789\n\n", nil, []string{"1234\n6789"}},
		{"too long", "data: a\n\ndata: 1234\ndata: 67890\n\n", ErrTooLong, []string{"a"}},
		{"too long, without an end", "data: 1234567890", ErrTooLong, nil},
		{"an error", "data: a\n\ndata: b", failure, []string{"a"}},
	} {
		var stream io.Reader = strings.NewReader(tc.stream)
		if errors.Is(tc.err, failure) {
			stream = io.MultiReader(stream, iotest.ErrReader(failure))
		}
		stream = iotest.OneByteReader(stream)
		var got []string
		var failed error
		for data, err := range Events(stream, 10) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, string(data))
		}
		if !slices.Equal(got, tc.want) || !errors.Is(failed, tc.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", tc.name, got, failed, tc.want, tc.err)
		}
	}
}
