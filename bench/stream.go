package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// streamConnection reads answers of events, which are chunked.
type streamConnection struct {
	*connection
	toFirst histogram // the times to the first event of each answer
}

func (r *request) connectStream(client int) (session, error) {
	s, err := r.connect(client)
	if err != nil {
		return nil, err
	}
	return &streamConnection{connection: s.(*connection)}, nil
}

var lastChunk = []byte("\r\n0\r\n\r\n")

func (c *streamConnection) once() error {
	if c.fill != nil {
		c.fill(c.text[c.slot:][:len(variable)], c.client)
	}
	begun := time.Now()
	if _, err := c.conn.Write(c.text); err != nil {
		return err
	}
	began := false
	seen := 0 // bytes in the buffer: the head, and then the end of what was read
	for {
		n, err := c.conn.Read(c.buffer[seen:])
		if err != nil {
			return fmt.Errorf("reading a stream: %w", err)
		}
		seen += n
		if !began && bytes.Contains(c.buffer[:seen], []byte("data: ")) {
			began = true
			c.toFirst.record(time.Since(begun))
			if !bytes.HasPrefix(c.buffer, []byte("HTTP/1.1 200 ")) {
				return fmt.Errorf("got:\n%.1000s", c.buffer[:seen])
			}
		}
		switch {
		case bytes.HasSuffix(c.buffer[:seen], lastChunk):
			if !began {
				return fmt.Errorf("a stream without events:\n%.1000s", c.buffer[:seen])
			}
			return nil
		case began:
			seen = copy(c.buffer, c.buffer[max(0, seen-len(lastChunk)):seen])
		case seen == len(c.buffer):
			return errors.New("the first event does not fit in the buffer")
		}
	}
}

// timeFirstEvents returns the median time to the first event of n streams, one after another.
func timeFirstEvents(r *request, n int) (time.Duration, error) {
	s, err := r.connectStream(0)
	if err != nil {
		return 0, err
	}
	defer s.close()
	c := s.(*streamConnection)
	if err := c.conn.SetDeadline(time.Now().Add(time.Duration(n)*time.Second + grace)); err != nil {
		return 0, err
	}
	for range max(n, 1) {
		if err := c.once(); err != nil {
			return 0, err
		}
	}
	return c.toFirst.quantile(0.5), nil
}

// streamEvents is the number of events in a stream.
const streamEvents = 200

// answerInEvents answers with events, and writes each apart.
func answerInEvents(conn net.Conn, events [][]byte) error {
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	for _, event := range events {
		if _, err := conn.Write(event); err != nil {
			return err
		}
	}
	_, err := io.WriteString(conn, "0\r\n\r\n")
	return err
}

// chunk returns a piece of a chunked answer.
func chunk(text string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(text), text) }
