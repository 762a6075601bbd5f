//go:build tools

// Package tools pins the planner that ours is measured beside.
package tools

import _ "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
