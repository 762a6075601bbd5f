//go:build tools

// Package etcd pins the unmodified etcd server, whose main package is the root of its module.
package etcd

import _ "go.etcd.io/etcd/server/v3"
