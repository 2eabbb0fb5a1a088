// Package oob carries what two processes tell each other out of band, over TCP, before and beside
// RDMA: frames, the handshake of two ends that share a token, a lobby for callers that have not
// said who they are, calls that are repeated until somebody answers, and on top of these a
// connection on which the two ends of a command exchange messages:
//
//	client                              server
//	   │ ◀─ greeting ───────────────────── │  where the server speaks first (Protocol.Greets)
//	   │ ── knock (nonce) ──────────────▶ │  where the client has a token; see token.go
//	   │ ◀─ challenge (nonce) ─────────── │
//	   │ ── proof ──────────────────────▶ │
//	   │ ◀─ proof ─────────────────────── │
//	   │ ── hello (name, purpose) ──────▶ │
//	   │ ◀─ welcome or failed ─────────── │
//	   │ ◀── what the purpose asks for ─▶ │  and alive, so that none waits for a peer that stands still
//	   │ ── bye ────────────────────────▶ │
//
// The control ring uses the frames, the handshake and the lobby; `lab`, `transport` and the
// registration at rank 0 (package launch) use the messages. All of them, and `pingpong`, whose
// bytes on the wire are those of ibv_rc_pingpong, name the program that calls by mistake.
package oob
