package main

import (
	"bufio"
	"errors"
	"fmt"
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
	bodiesMemory  = 128 // in MiB, max_memory's default
	uploadFigure  = "growth of resident memory, 64 uploads of 8 MB at once"
)

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
				if status == http.StatusOK {
					answered.Add(1)
				} else if status != http.StatusServiceUnavailable {
					failed <- fmt.Errorf("an upload: status %d, %w", status, err)
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
	if answered.Load() == 0 {
		return errors.New("no upload passed")
	}
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
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(grace)); err != nil {
		return 0, err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(r.text) // the answer tells whether it arrived
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	conn.Close()
	<-sent
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
