package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// putterEnv makes this program the server of a putter. Its value is the address to listen
// on, followed by etcd's endpoints.
const putterEnv = "PRESETS_BENCH_PUTTER"

// servePutter puts the body of each POST into etcd, and answers when the put is durable.
// This is the least work of a server.
func servePutter() error {
	addresses := strings.Split(os.Getenv(putterEnv), ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses[1:], DialTimeout: grace, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := net.Listen("tcp", addresses[0])
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: grace, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPost {
			_, err = client.Put(r.Context(), r.URL.Path[1:], string(body))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})}
	return server.Serve(listener)
}

// putter is an HTTP server that puts each request body into etcd.
type putter struct {
	*server
	address string
	cluster *cluster
}

func (b *bench) startPutter(c *cluster) (*putter, error) {
	addresses := reserveAddresses(1)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &putter{address: addresses[0], cluster: c}
	env := []string{putterEnv + "=" + strings.Join(append(addresses, c.endpoints...), ",")}
	p.server, err = b.start(b.command(self), env, newRequest(p.address, http.MethodGet, "/", "nobody", "", http.StatusCreated, nil))
	return p, err
}

func (p *putter) puts(b *bench, work string, record []byte) trial {
	r := newRequest(p.address, http.MethodPost, "/"+putPrefix+variable, "nobody", string(record), http.StatusCreated,
		func(part []byte, _ int) { writeSlug(part, 'h', b.serial.Add(1)) })
	r.size = len(record)
	return trial{work: work, open: r.connect, stored: p.cluster.stored(b)}
}
