package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// bareEnv makes this program a bare proxy. Its value is the address to listen on, then the upstream's, with a
// comma between.
const bareEnv = "PRESETS_BENCH_BARE"

// serveBare passes requests to the upstream by Go's own proxy, and unpacks their bodies. This is the least that
// a gateway does.
func serveBare(listen, upstream string) error {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: upstream})
		r.Out.Host = upstream
	}, Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	server := &http.Server{Addr: listen, ReadHeaderTimeout: grace, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") == "gzip" {
			if err := unpack(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})}
	return server.ListenAndServe()
}

// unpack replaces a packed body.
func unpack(r *http.Request) error {
	packed, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(packed)
	if err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Encoding")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// bareCase is a bare proxy in front of the upstream.
func (b *bench) bareCase() gatewayCase {
	return gatewayCase{name: bareGateway, unpacks: true, start: func(l chatLoad) (*server, *request, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		address := reserveAddresses(1)[0]
		ready := newRequest(address, http.MethodGet, "/", "nobody", "", http.StatusOK, nil)
		s, err := b.start(b.command(self), []string{bareEnv + "=" + address + "," + b.upstream}, ready)
		if err != nil {
			return nil, nil, err
		}
		return s, chatRequest(address, "nobody", chatModel, l), nil
	}}
}
