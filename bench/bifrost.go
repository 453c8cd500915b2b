package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const bifrostModule = "bifrost"

// prepareBifrost builds a server with Bifrost's core.
func (b *bench) prepareBifrost() (gatewayCase, error) {
	binary, err := b.build(bifrostModule, ".", "bifrost")
	if err != nil {
		return gatewayCase{}, fmt.Errorf("%w\nInstall it with: go -C bench/bifrost mod download", err)
	}
	version, err := exec.CommandContext(b.ctx, "go", "-C", bifrostModule, "list", "-m", "github.com/maximhq/bifrost/core").Output()
	if err != nil {
		return gatewayCase{}, err
	}
	stored := filepath.Join(b.folder, "bifrost.json")
	if err := os.WriteFile(stored, []byte(storedChat()), 0o600); err != nil {
		return gatewayCase{}, err
	}
	b.peerVersions = append(b.peerVersions, strings.TrimSpace(string(version)))
	return gatewayCase{name: bifrostGateway, received: withStored, start: func(l chatLoad) (*server, *request, error) {
		address := reserveAddresses(1)[0]
		cmd := b.command(binary, "-address", address, "-upstream", "http://"+b.upstream, "-stored", stored)
		s, err := b.start(cmd, nil, newRequest(address, http.MethodGet, "/", "nobody", "", http.StatusNotFound, nil))
		if err != nil {
			return nil, nil, err
		}
		r := chatRequest(address, "nobody", chatModel, l)
		r.size = 0 // an answer tells how long the upstream took
		return s, r, nil
	}}, nil
}
