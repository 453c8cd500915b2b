package main

import (
	"bytes"
	"fmt"
	"net/http"
)

// gatewayRequest returns an inference request of 2 KB, which the gateway answers. Its
// model may contain variable.
func gatewayRequest(address, path, key, model string, fill func([]byte, int)) *request {
	r := newRequest(address, http.MethodPost, path, key, requestBody(model, ""), http.StatusOK, fill)
	r.size = len(upstreamAnswer)
	return r
}

// checkUntouched checks that the gateway gets a request without a preset unchanged.
func checkUntouched(address, path, key string) error {
	header, answer, err := gatewayRequest(address, path, key, model, nil).ask()
	if err != nil {
		return err
	}
	if string(answer) != upstreamAnswer || header.Get("X-Preset") != "" {
		return fmt.Errorf("%s: got %s, X-Preset %q, want the gateway's answer", path, answer, header.Get("X-Preset"))
	}
	_, received, err := gatewayRequest(address, path+"?"+echo, key, model, nil).ask()
	if err != nil {
		return err
	}
	if sent := requestBody(model, ""); string(received) != sent {
		return fmt.Errorf("%s: the gateway received %s, want %s", path, received, sent)
	}
	return nil
}

// checkResolved checks that a request with a preset reaches the gateway with the content
// that fill stored.
func checkResolved(address, key, slug string) error {
	const path = "/v1/responses"
	header, received, err := gatewayRequest(address, path+"?"+echo, key, "@preset/"+slug, nil).ask()
	if err != nil {
		return err
	}
	if got, want := header.Get("X-Preset"), slug+"@1"; got != want {
		return fmt.Errorf("%s: got X-Preset %q, want %q", path, got, want)
	}
	for _, part := range []string{model, `"temperature":0.7`, prompt} {
		if !bytes.Contains(received, []byte(part)) {
			return fmt.Errorf("%s: the gateway received %s, want %s in it", path, received, part)
		}
	}
	return nil
}
