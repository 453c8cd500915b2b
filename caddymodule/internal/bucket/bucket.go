// Package bucket keeps files as the objects of a bucket, in S3 or in a server with the API of S3.
package bucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

const (
	// Scheme begins the address of a bucket: s3://bucket/prefix.
	Scheme = "s3://"
	// Patience is how long a server may take for the next bytes, for Open.
	Patience = time.Minute

	// partSize is the size of a part of an upload, and of its buffer. S3 takes 10,000 parts.
	partSize = 16 << 20
	// tries bounds how often a request is sent.
	tries = 3
)

// Bucket is the objects with a prefix in a bucket. It is safe for concurrent use.
type Bucket struct {
	client       *minio.Client
	name, prefix string
}

// Open returns what is below the prefix of s3://bucket/prefix, and sends nothing yet. A server that
// sends and takes nothing for as long as patience is an error.
//
// The variables of AWS's tools say where the server is and who asks: AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL, AWS_REGION, AWS_CA_BUNDLE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN, or AWS_SHARED_CREDENTIALS_FILE with AWS_PROFILE. Errors show no credentials.
func Open(address string, patience time.Duration) (*Bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, Scheme), "/")
	if !strings.HasPrefix(address, Scheme) || name == "" {
		return nil, fmt.Errorf("%s: want %sbucket/prefix", terminal.Escape(address), Scheme)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	endpoint, err := endpointOf(cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"))
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(patience)
	if err != nil {
		return nil, err
	}
	creds := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
	// The error may have a line of the file.
	if v, err := creds.GetWithContext(&credentials.CredContext{Client: &http.Client{Transport: transport}}); err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return nil, errors.New("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or have AWS_SHARED_CREDENTIALS_FILE name a file with the profile AWS_PROFILE")
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Transport: transport, MaxRetries: tries,
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1"),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", terminal.Escape(address), err)
	}
	return &Bucket{client, name, prefix}, nil
}

// endpointOf returns the URL of a server. Others must not read what is sent to it.
func endpointOf(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("AWS_ENDPOINT_URL: want https://host or https://host:port")
	}
	ip := net.ParseIP(u.Hostname())
	isLocal := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !isLocal) {
		return nil, errors.New("AWS_ENDPOINT_URL: want https, or http for a server on this machine: anyone on the way can read what http sends")
	}
	return u, nil
}

// newTransport returns a transport whose connections fail if they are silent for too long.
func newTransport(patience time.Duration) (*http.Transport, error) {
	roots, err := rootsIn(os.Getenv("AWS_CA_BUNDLE"))
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	dialer := net.Dialer{Timeout: patience}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return patientConn{conn, patience}, nil
		},
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, IdleConnTimeout: patience / 2,
		DisableCompression: true,
	}, nil
}

// rootsIn returns the certificates in a file, and nil, which are the system's, for no name.
func rootsIn(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificates", file)
	}
	return roots, nil
}

// patientConn fails once it has neither sent nor received anything for as long as patience.
type patientConn struct {
	net.Conn
	patience time.Duration
}

func (c patientConn) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.patience)) // fails if the connection is closed
	return c.Conn.Read(p)
}

func (c patientConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.patience)) // for the reader that waits meanwhile, too
	return c.Conn.Write(p)
}

// Path returns the address of an object.
func (b *Bucket) Path(name string) string { return Scheme + b.name + "/" + b.prefix + name }

// explain returns what an operator needs of an error about an object, or about all for "".
func (b *Bucket) explain(err error, name string) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok {
		err = fmt.Errorf("the server answers %s: %s", terminal.Escape(r.Code), terminal.Escape(r.Error()))
	}
	return fmt.Errorf("%s: %w", terminal.Escape(b.Path(name)), err)
}

// Names returns the names of the objects, in their order.
func (b *Bucket) Names(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if object.Err != nil {
			return nil, b.explain(object.Err, "")
		}
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	return names, b.explain(ctx.Err(), "") // which ends a list without an error
}

// digestName is the name of an object's digest in its metadata, as HTTP writes it.
const digestName = "Presets-Digest"

// Put makes an object of so many bytes, and with a digest for Digest. The server compares checksums,
// and shows the object once it has all of it. After an error there may be parts, which RemoveParts
// removes.
func (b *Bucket) Put(ctx context.Context, name string, content io.ReaderAt, size int64, digest string) error {
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, io.NewSectionReader(content, 0, size), size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", UserMetadata: map[string]string{digestName: digest},
		PartSize: partSize, SendContentMd5: true, NumThreads: 1,
	})
	if err != nil {
		return b.explain(err, name)
	}
	stored, err := b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if err == nil && stored.Size != size {
		err = fmt.Errorf("the server has %d of %d bytes", stored.Size, size)
	}
	return b.explain(err, name)
}

// Digest returns the digest that an object was put with, empty for none.
func (b *Bucket) Digest(ctx context.Context, name string) (string, error) {
	info, err := b.client.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	return info.UserMetadata[digestName], b.explain(err, name)
}

// Get returns the content of an object, and its size. The caller closes it.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, 0, b.explain(err, name)
	}
	info, err := object.Stat()
	if err != nil {
		_ = object.Close()
		return nil, 0, b.explain(err, name)
	}
	return object, info.Size, nil
}

// Remove removes an object.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	return b.explain(b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}), name)
}

// RemoveParts removes the parts of uploads that broke off, of objects for which isOurs is true.
// removed has the names of the objects. An upload that is under way fails.
func (b *Bucket) RemoveParts(ctx context.Context, isOurs func(name string) bool) (removed []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, false) {
		name := strings.TrimPrefix(upload.Key, b.prefix)
		switch {
		case upload.Err != nil:
			return removed, b.explain(upload.Err, "")
		case !isOurs(name):
			continue
		}
		if err := b.client.RemoveIncompleteUpload(ctx, b.name, upload.Key); err != nil {
			return removed, b.explain(err, name)
		}
		removed = append(removed, name)
	}
	return removed, nil
}
