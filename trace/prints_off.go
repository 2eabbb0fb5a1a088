//go:build notrace

package trace

const prints = false
