package oob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"
)

// Strangers that are likely to find the port: another fabric test that was given
// it, a health check, a port scanner.
var (
	// rdma-core, libibverbs/examples/rc_pingpong.c: "%04x:%06x:%06x:%s", 52 bytes.
	pingpongMessage = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{6}:[0-9a-f]{6}:[0-9a-f]{32}`)
	// perftest, src/perftest_communication.c: KEY_PRINT_FMT (59 bytes) and
	// KEY_PRINT_FMT_GID (108 bytes).
	perftestMessage = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{6}:[0-9a-f]{6}:[0-9a-f]{8}:[0-9a-f]{16}:`)
	// Its first word, unless it is told not to: its version in 16 bytes, zeros at
	// the end (exchange_versions).
	perftestVersion = regexp.MustCompile(`^([0-9]+\.[0-9]+)\x00+$`)
	httpMessage     = regexp.MustCompile(`^(GET|HEAD|POST|PUT|DELETE|OPTIONS|CONNECT|PATCH|TRACE|PRI) |^HTTP/`)
)

// Identify says in a few words what a program that sent these first bytes is.
func Identify(head []byte) string {
	switch {
	case len(head) == 0:
		return "a program that says nothing"
	case pingpongMessage.Match(head):
		return fmt.Sprintf("ibv_rc_pingpong (%d-byte address message)", len(bytes.TrimRight(head, "\x00"))+1)
	case perftestMessage.Match(head):
		return fmt.Sprintf("perftest, such as ib_write_bw (%d-byte address message)", len(head))
	case len(head) == 16 && perftestVersion.Match(head):
		return fmt.Sprintf("perftest %s, such as ib_write_bw (16-byte version)", perftestVersion.FindSubmatch(head)[1])
	case httpMessage.Match(head):
		return fmt.Sprintf("an HTTP program (%q)", firstLine(head))
	case len(head) >= 3 && head[0] == 0x16 && head[1] == 3:
		return "a TLS client (ClientHello)"
	case bytes.HasPrefix(head, []byte("SSH-")):
		return fmt.Sprintf("an SSH program (%q)", firstLine(head))
	default:
		return fmt.Sprintf("an unknown program (first bytes %q)", head[:min(len(head), 16)])
	}
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return bytes.TrimSpace(line[:min(len(line), 40)])
}

// strangerPause is how long the rest of a foreign program's first message may take.
const strangerPause = 100 * time.Millisecond

// Stranger names the program at the other end of a connection, if what came instead of
// a frame is not ringcli's.
func Stranger(conn net.Conn, err error) (program string, strange bool) {
	not, strange := errors.AsType[*notFrameError](err)
	if !strange {
		return "", false
	}
	return Identify(append(not.head, Rest(conn)...)), true
}

// Rest reads what a foreign program goes on to say, for Identify.
func Rest(conn net.Conn) []byte {
	_ = conn.SetReadDeadline(time.Now().Add(strangerPause)) // fails on a closed connection only, as the read will
	more, _ := io.ReadAll(io.LimitReader(conn, 256))        // what there is
	return more
}
