// Command s3server is a server of the S3 API for tests: versitygw over a folder, whose folders are
// its buckets. It speaks TLS, and has the account of AWS_ACCESS_KEY_ID alone.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: s3server <host:port> <folder> <folder of metadata> <certificate> <key>")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves the buckets in a folder until the process is asked to end. Their metadata are files,
// because not every file system has attributes of users.
func serve(address, folder, metadata, certificate, key string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	files, err := meta.NewSideCar(metadata)
	if err != nil {
		return err
	}
	store, err := posix.New(folder, files, posix.PosixOpts{SideCarDir: metadata})
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, store, &embedgw.Config{
		RootUserAccess: os.Getenv("AWS_ACCESS_KEY_ID"), RootUserSecret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Ports: []string{address}, CertFile: certificate, KeyFile: key,
		MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 10_000, Quiet: true, KeepAlive: true,
	})
}
