// Command bifrost serves chat completions with Bifrost's core, for the comparison in the
// folder above. It is a separate module, so that only this comparison downloads Bifrost.
//
// It only does what Bifrost's own HTTP server does for a request. fasthttp reads it, sonic
// decodes it, and the core sends it and encodes the answer. There are no plugins, no logs and
// no metrics. The core has the settings that Bifrost's documentation recommends for up to
// 5,000 requests a second. They are its defaults.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"

	bifrost "github.com/maximhq/bifrost/core"
	"github.com/maximhq/bifrost/core/schemas"
	"github.com/valyala/fasthttp"
)

func main() {
	log.SetFlags(0)
	address := flag.String("address", "", "host and port to listen on")
	upstream := flag.String("upstream", "", "URL of the provider")
	file := flag.String("stored", "", "file with the stored configuration")
	flag.Parse()
	if *address == "" || *upstream == "" || *file == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := serve(*address, *upstream, *file); err != nil {
		log.Fatal(err)
	}
}

func serve(address, upstream, file string) error {
	stored, err := readStored(file)
	if err != nil {
		return err
	}
	client, err := bifrost.Init(context.Background(), schemas.BifrostConfig{
		Account:         account{upstream},
		InitialPoolSize: schemas.DefaultInitialPoolSize,
		Logger:          bifrost.NewDefaultLogger(schemas.LogLevelError),
	})
	if err != nil {
		return err
	}
	h := handler{client: client, stored: stored}
	server := fasthttp.Server{
		Handler:            h.serve,
		ReadBufferSize:     16 << 10, // of a request's head
		MaxRequestBodySize: 10 << 20,
	}
	return server.ListenAndServe(address)
}

// account has one provider, at an address of the comparison.
type account struct{ upstream string }

func (account) GetConfiguredProviders() ([]schemas.ModelProvider, error) {
	return []schemas.ModelProvider{schemas.OpenAI}, nil
}

func (account) GetKeysForProvider(context.Context, schemas.ModelProvider) ([]schemas.Key, error) {
	return []schemas.Key{{ID: "bench", Name: "bench", Value: *schemas.NewEnvVar("nobody"), Models: schemas.WhiteList{"*"}, Weight: 1}}, nil
}

func (a account) GetConfigForProvider(provider schemas.ModelProvider) (*schemas.ProviderConfig, error) {
	if provider != schemas.OpenAI {
		return nil, errors.New("only OpenAI is configured")
	}
	network := schemas.DefaultNetworkConfig
	network.BaseURL = a.upstream
	return &schemas.ProviderConfig{
		NetworkConfig:            network,
		ConcurrencyAndBufferSize: schemas.DefaultConcurrencyAndBufferSize,
	}, nil
}
