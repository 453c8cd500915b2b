package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// upstreamEnv makes this program the upstream. The upstream answers each request with the
// same bytes, so that it costs as little as possible.
const upstreamEnv = "PRESETS_BENCH_UPSTREAM"

const upstreamAnswer = `{"id":"x","object":"response","output":[]}`

// echo in a request asks the upstream to answer with the request's body.
const echo = "bench-echo"

// serveUpstream listens on the loopback interface and prints the address. It ends with its
// standard input, so that it cannot outlive its parent.
func serveUpstream() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = listener.Close()
	}()
	answerClients(listener)
	return nil
}

// answerClients answers all clients until the listener is closed.
func answerClients(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = answerAll(conn)
		}()
	}
}

// startUpstream starts this program as the upstream.
func (b *bench) startUpstream() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := b.command(self)
	cmd.Env = append(os.Environ(), upstreamEnv+"=1")
	// The pipe to the upstream's standard input closes when this process ends.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := &server{cmd: cmd, ended: make(chan struct{})}
	b.servers = append(b.servers, s)
	line, err := bufio.NewReader(out).ReadString('\n')
	go s.wait()
	b.upstream = strings.TrimSpace(line)
	return err
}

// answerAll answers requests that come one after another and announce the length
// of their bodies. It hangs up on others.
func answerAll(conn net.Conn) error {
	usual, withUsage, chat := jsonAnswer([]byte(upstreamAnswer)), jsonAnswer([]byte(usageAnswer)), jsonAnswer([]byte(chatAnswer))
	buffer := make([]byte, 64<<10)
	for {
		read, head, size := 0, -1, 0
		for head < 0 || read < head+size {
			n, err := conn.Read(buffer[read:])
			if err != nil {
				return err
			}
			read += n
			if head < 0 {
				if end := bytes.Index(buffer[:read], headEnd); end >= 0 {
					head = end + len(headEnd)
					_, announced := parseHead(buffer[:head])
					size = max(announced, 0)
					buffer = append(buffer, make([]byte, max(0, head+size-len(buffer)))...)
				}
			}
		}
		if read != head+size {
			return fmt.Errorf("%d bytes after a request", read-head-size)
		}
		answer := usual
		if bytes.Contains(buffer[:head], []byte(keepWaiting)) {
			return answerWaiting(conn)
		}
		switch {
		case bytes.Contains(buffer[:head], []byte(echo)):
			answer = jsonAnswer(buffer[head:read])
		case bytes.Contains(buffer[:head], []byte(answerUsage)):
			answer = withUsage
		case bytes.Contains(buffer[:head], []byte(answerEvents)):
			if err := answerInEvents(conn, usageEvents()); err != nil {
				return err
			}
			continue
		case bytes.Contains(buffer[:head], []byte(keepNextChat)):
			keeper.next.Store(true)
		case bytes.Contains(buffer[:head], []byte(keptChat)):
			answer = jsonAnswer(keeper.take())
		case bytes.Contains(buffer[:head], []byte(chatPath)):
			keeper.keep(buffer[head:read])
			if asksForEvents(buffer[head:read]) {
				if err := answerInEvents(conn, chatEvents()); err != nil {
					return err
				}
				continue
			}
			answer = chat
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

func jsonAnswer(body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
