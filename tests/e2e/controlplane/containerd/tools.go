//go:build tools

// Package containerd pins the unmodified containerd, its shim and its command line: what runs a real kubelet's pods.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
