//go:build tools

// Package kwok pins the unmodified KWOK, which keeps Nodes alive that no kubelet runs.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
