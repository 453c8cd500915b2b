package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Uploads of this size, at once by so many clients, want four times the memory for bodies that the shipped
// configuration has. Some of them get 503.
const (
	uploadSize    = 8 << 20
	uploadClients = 64
	bodiesMemory  = 128 // in MiB, max_memory's default without a limit of Go's memory
	uploadFigure  = "growth of resident memory, 64 uploads of 8 MB at once"
	uploadsPassed = "uploads of 8 MB that passed, a second"
)

var errUpload = errors.New("want 200 or 503")

// measureUploads measures how much the process grows while clients upload much at once.
func (b *bench) measureUploads(filled store) error {
	if runtime.GOOS != "linux" {
		return nil // there is no /proc
	}
	o, err := b.startOurs(filled)
	if err != nil {
		return err
	}
	defer o.stop()
	r := chatRequest(o.address, o.inference, "@preset/"+variable, chatLoad{size: uploadSize})
	writeSlug(r.text[r.slot:][:len(variable)], storedSlug, 0)
	before, err := o.memory("VmRSS")
	if err != nil {
		return err
	}
	var clients sync.WaitGroup
	var answered atomic.Int64
	failed := make(chan error, uploadClients)
	until := time.Now().Add(2 * b.lasting)
	for range uploadClients {
		clients.Go(func() {
			for time.Now().Before(until) {
				status, err := upload(r)
				if status == http.StatusOK && err == nil {
					answered.Add(1)
				} else if status != http.StatusServiceUnavailable {
					failed <- fmt.Errorf("an upload got the status %d: %w", status, cmp.Or(err, errUpload))
					return
				}
			}
		})
	}
	clients.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	b.record(uploadsPassed, "", float64(answered.Load())/(2*b.lasting).Seconds())
	peak, err := o.memory("VmHWM")
	b.record(uploadFigure, "MiB", peak-before)
	return err
}

// upload sends a request over a connection of its own. The server answers 503 before it has all of it.
func upload(r *request) (status int, err error) {
	conn, err := net.DialTimeout("tcp", r.address, grace)
	if err != nil {
		return 0, err
	}
	if err := conn.SetDeadline(time.Now().Add(grace)); err != nil {
		return 0, err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(r.text) // the answer tells whether it arrived
	}()
	defer func() {
		conn.Close()
		<-sent
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == http.StatusOK {
		err = checkChatAnswer(body)
	}
	return answer.StatusCode, errors.Join(err, answer.Body.Close())
}
