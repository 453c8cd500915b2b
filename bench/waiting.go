package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// keepWaiting in a request asks the upstream to read the body, begin an answer, and never
// end it.
const keepWaiting = "bench-wait"

const (
	waitingRequests = 200
	// waitingSize is the size of a waiting request's body, in bytes. The upstream reads
	// no larger bodies.
	waitingSize = 48 << 10
)

const (
	waitingProxy   = "memory of a waiting request: stock Caddy"
	waitingInfer   = "memory of a waiting request: no preset"
	waitingResolve = "memory of a waiting request: preset"
)

// measureWaiting records how many bytes a server holds for a waiting request. The gateway
// has read its body and begun its answer.
func (b *bench) measureWaiting(ours *ours, stock *stock) error {
	asking := func(address, key, model string) *request {
		const rest = `{"model":"%s","input":"%s"}`
		text := strings.Repeat("x", waitingSize-len(rest)-len(model))
		return newRequest(address, http.MethodPost, "/v1/responses?"+keepWaiting, key, fmt.Sprintf(rest, model, text), http.StatusOK, nil)
	}
	for round := range b.rounds {
		log.Printf("%s: round %d of %d", waiting, round+1, b.rounds)
		for _, of := range []struct {
			figure, admin string
			request       *request
		}{
			{waitingProxy, stock.admin, asking(stock.proxy, "nobody", model)},
			{waitingInfer, ours.admin, asking(ours.address, ours.inference, model)},
			{waitingResolve, ours.admin, asking(ours.address, ours.inference, "@preset/"+slugOf(0))},
		} {
			b.settle() // until earlier clients have left
			held, err := heldWaiting(of.admin, of.request)
			if err != nil {
				return fmt.Errorf("%s: %w", of.figure, err)
			}
			b.record(of.figure, "KiB", held/1024)
		}
	}
	return nil
}

// heldWaiting returns the bytes that a server holds for each waiting request. admin is
// its admin endpoint.
func heldWaiting(admin string, r *request) (float64, error) {
	before, err := liveHeap(admin)
	if err != nil {
		return 0, err
	}
	for range waitingRequests {
		conn, err := net.DialTimeout("tcp", r.address, grace)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(grace)); err != nil {
			return 0, err
		}
		if _, err := conn.Write(r.text); err != nil {
			return 0, err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // its connection is closed
		if err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, len(waitingBegin))); err != nil || answer.StatusCode != r.status {
			return 0, fmt.Errorf("got %s, %w", answer.Status, err)
		}
	}
	after, err := liveHeap(admin)
	return (after - before) / waitingRequests, err
}

var heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// liveHeap returns the bytes of a server's heap that are in use after a garbage
// collection.
func liveHeap(admin string) (size float64, err error) {
	for range 2 { // the second one frees objects with finalizers
		answer, err := http.Get("http://" + admin + "/debug/pprof/heap?gc=1&debug=1") //nolint:noctx // the server is this program's own
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil {
			return 0, err
		}
		found := heapAlloc.FindSubmatch(text)
		if found == nil {
			return 0, fmt.Errorf("%s tells nothing of its heap", admin)
		}
		if size, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// waitingBegin is the beginning of an answer that does not end.
const waitingBegin = "data: 1\n\n"

// answerWaiting begins an answer and waits until its client leaves.
func answerWaiting(conn io.ReadWriter) error {
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(waitingBegin), waitingBegin); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	return err
}
