package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// defaultTimeout is how long a server may take to answer.
const defaultTimeout = 30 * time.Second

// connection says how a command connects to a server. Flags set it.
type connection struct {
	timeout time.Duration
	caFile  string
}

func (c *connection) connectionFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.timeout, "timeout", defaultTimeout, "How long the server may take for an answer")
	cmd.Flags().StringVar(&c.caFile, "cacert", "", "File with the certificates, in PEM, of authorities to trust besides the system's")
	_ = cmd.MarkFlagFilename("cacert") // fails for an unknown flag only
}

func (c *connection) transport() (http.RoundTripper, error) {
	if c.timeout <= 0 {
		return nil, fmt.Errorf("--timeout must be positive, got %s", c.timeout)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxConnections
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cacert: %s has no certificate in PEM", c.caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		transport.ForceAttemptHTTP2 = true
	}
	return transport, nil
}
