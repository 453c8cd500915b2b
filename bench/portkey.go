package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// portkeyFolder has the package of Portkey's gateway, and what it needs to run here.
const portkeyFolder = "../e2e/portkey"

var portkeyPackage = filepath.Join("node_modules", "@portkey-ai", "gateway")

// preparePortkey installs Portkey's gateway if it is missing.
func (b *bench) preparePortkey() (gatewayCase, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return gatewayCase{}, errors.New("there is no node. Install it with: apt-get install nodejs npm")
	}
	if err := b.installPortkey(); err != nil {
		return gatewayCase{}, err
	}
	nodeVersion, err := b.command(node, "--version").Output()
	if err != nil {
		return gatewayCase{}, err
	}
	var description struct{ Name, Version string }
	text, err := os.ReadFile(filepath.Join(portkeyFolder, portkeyPackage, "package.json"))
	if err = errors.Join(err, json.Unmarshal(text, &description)); err != nil {
		return gatewayCase{}, err
	}
	b.peerVersions = append(b.peerVersions, fmt.Sprintf("%s %s with Node.js %s", description.Name, description.Version, strings.TrimSpace(string(nodeVersion))))
	return gatewayCase{name: portkeyGateway, received: withSettings, start: func(l chatLoad) (*server, *request, error) {
		address := reserveAddresses(1)[0]
		_, port, _ := strings.Cut(address, ":")
		cmd := b.command(node, "--import", "./preload.mjs", filepath.Join(portkeyPackage, "build", "start-server.js"), "--headless", "--port="+port)
		cmd.Dir = portkeyFolder
		s, err := b.start(cmd, []string{"NODE_ENV=production"}, newRequest(address, http.MethodGet, "/", "nobody", "", http.StatusOK, nil))
		if err != nil {
			return nil, nil, err
		}
		return s, b.portkeyRequest(address, l), nil
	}}, nil
}

// installPortkey runs npm, unless the package is there. No script of a package runs.
func (b *bench) installPortkey() error {
	if _, err := os.Stat(filepath.Join(portkeyFolder, portkeyPackage, "build")); err == nil {
		return nil
	}
	out, err := b.command("npm", "install", "--prefix", portkeyFolder, "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund").CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm: %w\n%s\nInstall it with: npm install --prefix e2e/portkey --ignore-scripts --no-package-lock", err, out)
	}
	return nil
}

// portkeyRequest returns the request of a load. The stored configuration is in a header, as
// the gateway without Portkey's service needs it. override_params cannot add a message, so
// the client sends the system message.
func (b *bench) portkeyRequest(address string, l chatLoad) *request {
	r := newRequest(address, http.MethodPost, chatPath, "nobody", withSystemMessage(chatBody(chatModel, l.size, l.stream)), http.StatusOK, nil)
	r.setHeader("X-Portkey-Config", fmt.Sprintf(`{"provider":"openai","api_key":"nobody","custom_host":"http://%s/v1","override_params":{"model":"%s",%s}}`,
		b.upstream, chatModel, chatSettings))
	return r
}
