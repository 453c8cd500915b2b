package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// liteLLMRequirements names LiteLLM's proxy and all that it needs, with their versions.
const liteLLMRequirements = "../e2e/litellm/requirements.txt"

// liteLLMKey is the proxy's own key. Without one it does not start.
const liteLLMKey = "sk-0123456789abcdef0123456789abcdef"

// prepareLiteLLM installs LiteLLM's proxy, unless it is there. It stays in the system's folder for caches.
func (b *bench) prepareLiteLLM() (gatewayCase, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return gatewayCase{}, errors.New("there is no python3. Install it with: apt-get install python3 python3-venv")
	}
	requirements, err := os.ReadFile(liteLLMRequirements)
	if err != nil {
		return gatewayCase{}, err
	}
	_, version, found := strings.Cut(string(requirements), "\nlitellm==")
	if version, _, _ = strings.Cut(version, "\n"); !found {
		return gatewayCase{}, fmt.Errorf("%s does not name litellm", liteLLMRequirements)
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return gatewayCase{}, err
	}
	environment := filepath.Join(caches, "caddy-presets-bench", fmt.Sprintf("litellm-%s-%x", version, sha256.Sum256(requirements))[:64])
	binary, installed := filepath.Join(environment, "bin", "litellm"), filepath.Join(environment, "installed")
	if _, err := os.Stat(installed); err != nil {
		for _, args := range [][]string{
			{python, "-m", "venv", environment},
			{filepath.Join(environment, "bin", "python"), "-m", "pip", "install", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check", "--requirement", liteLLMRequirements},
		} {
			if out, err := b.command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return gatewayCase{}, fmt.Errorf("%s: %w\n%s\nIt needs Debian's python3-venv and a package index", strings.Join(args[1:3], " "), err, out)
			}
		}
		if err := os.WriteFile(installed, nil, 0o600); err != nil { // at the end, since an installation may be stopped
			return gatewayCase{}, err
		}
	}
	config := filepath.Join(b.folder, "litellm.yaml")
	// A configuration in JSON is one in YAML.
	text := fmt.Sprintf(`{"model_list":[{"model_name":"preset","litellm_params":{"model":"openai/%s","api_base":"http://%s/v1","api_key":"nobody",%s}}]}`, chatModel, b.upstream, chatSettings)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return gatewayCase{}, err
	}
	b.peerVersions = append(b.peerVersions, fmt.Sprintf("litellm %s with %d workers", version, runtime.NumCPU()))
	return gatewayCase{name: liteLLMGateway, received: withSettings, start: func(l chatLoad) (*server, *request, error) {
		address := reserveAddresses(1)[0]
		host, port, _ := strings.Cut(address, ":")
		cmd := b.command(binary, "--config", config, "--host", host, "--port", port, "--num_workers", fmt.Sprint(runtime.NumCPU()), "--telemetry", "False")
		// LITELLM_LOCAL_MODEL_COST_MAP keeps it from asking GitHub. The others are those of its page about production.
		env := []string{"LITELLM_MODE=PRODUCTION", "LITELLM_LOG=ERROR", "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_MASTER_KEY=" + liteLLMKey}
		s, err := b.launch(cmd, env)
		if err != nil {
			return nil, nil, err
		}
		s.startGrace = 3 * time.Minute // it takes half a minute where other work runs
		err = s.await(newRequest(address, http.MethodGet, "/health/liveliness", "nobody", "", http.StatusOK, nil))
		if err != nil {
			return nil, nil, err
		}
		// The proxy adds no message of its own, so the client sends the system message.
		return s, newRequest(address, http.MethodPost, chatPath, liteLLMKey, withSystemMessage(chatBody("preset", l.size, l.stream)), http.StatusOK, nil), nil
	}}, nil
}
