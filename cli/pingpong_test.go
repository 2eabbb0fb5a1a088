package cli

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/route"
	"ringcli/verbs/verbstest"
)

// pairOfPingpongs runs a server and a client to their ends, each with flags of its own.
func pairOfPingpongs(t *testing.T, server, client string) (ends [2]*process, codes [2]int) {
	t.Helper()
	list := hostsOf(freshList(t, 2))
	for i, line := range []string{
		fmt.Sprintf("pingpong -d soft:lo --bind %s %s", list[0], server),
		fmt.Sprintf("pingpong -d soft:lo --bind %s %s %s", list[1], client, list[0]),
	} {
		ends[i] = launch(t, words(line)...)
	}
	var both sync.WaitGroup
	for i, p := range ends {
		both.Go(func() { codes[i] = p.end(t, hung) })
	}
	both.Wait()
	return ends, codes
}

// hostsOf is a list without its ports.
func hostsOf(list []string) []string {
	hosts := make([]string, len(list))
	for i, entry := range list {
		hosts[i], _, _ = net.SplitHostPort(entry)
	}
	return hosts
}

// A server and a client of one host have the RoCE port of different addresses, as the stock
// tool's over a device that serves the whole host.
func TestPingpongOnOneHost(t *testing.T) {
	host := hostsOf(freshList(t, 2))[0]
	for _, c := range []struct{ line, own, peer string }{
		{"pingpong -n 20 -d lo --bind " + host, host, "127.0.0."}, {"pingpong -n 20 -d lo --bind " + host + " " + host, "127.0.0.", host},
	} {
		p := launch(t, words(c.line)...)
		defer func() {
			if code := p.end(t, hung); code != exit.OK {
				t.Errorf("%s: exit code %d: %s%s", c.line, code, p.stdout.String(), p.stderr.String())
			}
			for _, gid := range []string{c.own, c.peer} {
				if !strings.Contains(p.stdout.String(), "GID ::ffff:"+gid) {
					t.Errorf("%s: no GID of %s:\n%s", c.line, gid, p.stdout.String())
				}
			}
		}()
	}
}

// Both ends say the same of what they did, at all sizes, and each what the other
// says of itself.
func TestPingpong(t *testing.T) {
	for _, flags := range []string{
		"-s 1 -n 50", "-s 64 -n 1200 -r 3", "-s 1024 -c", "-s 4096 -m 256 -e", "-s 65536 -m 4096 -c -n 100", "-s 5000 -c -e -n 100", "-n 1", "-n 1 -r 1 -c",
	} {
		t.Run(flags, func(t *testing.T) {
			ends, codes := pairOfPingpongs(t, flags+" --output json", flags+" --output json")
			var results [2]map[string]any
			for i, p := range ends {
				if codes[i] != exit.OK || p.stderr.Len() > 0 {
					t.Fatalf("end %d: exit code %d: %s%s", i, codes[i], p.stdout.String(), p.stderr.String())
				}
				results[i] = objects(t, p.stdout.String())[0]
			}
			server, client := results[0], results[1]
			if server["role"] != "server" || client["role"] != "client" {
				t.Errorf("roles %v and %v", server["role"], client["role"])
			}
			for _, name := range []string{"size", "iters", "mtu", "bytes", "checked"} {
				if server[name] != client[name] {
					t.Errorf("%s: %v and %v", name, server[name], client[name])
				}
			}
			if fmt.Sprint(server["local"]) != fmt.Sprint(client["remote"]) || fmt.Sprint(client["local"]) != fmt.Sprint(server["remote"]) {
				t.Errorf("%v, %v and %v, %v", server["local"], server["remote"], client["local"], client["remote"])
			}
			rtt := client["rtt_us"].(map[string]any)
			last := 0.0
			for _, name := range []string{"min", "p50", "p90", "p99", "max"} {
				if v := rtt[name].(float64); v < last || v == 0 {
					t.Errorf("%s: %v after %v", name, v, last)
				} else {
					last = v
				}
			}
		})
	}
}

// The table has the stock tool's four lines, so that what reads those reads these.
func TestPingpongPrintsTheStockLines(t *testing.T) {
	ends, codes := pairOfPingpongs(t, "-n 10 -s 100", "-n 10 --size 100")
	for i, p := range ends {
		var lid, qpn, psn, bytes, iters int
		var gid string
		var seconds, mbit, usec float64
		lines := strings.Split(p.stdout.String(), "\n")
		if codes[i] != exit.OK || len(lines) < 6 {
			t.Fatalf("end %d: exit code %d: %s%s", i, codes[i], p.stdout.String(), p.stderr.String())
		}
		for n, format := range []string{
			"  local address:  LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s", "  remote address: LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s",
		} {
			if _, err := fmt.Sscanf(lines[n], format, &lid, &qpn, &psn, &gid); err != nil || fmt.Sprintf(format, lid, qpn, psn, gid) != lines[n] || !strings.HasPrefix(gid, "::ffff:127.") {
				t.Errorf("%q: expected %q: %v", lines[n], format, err)
			}
		}
		if _, err := fmt.Sscanf(lines[2], "%d bytes in %f seconds = %f Mbit/sec", &bytes, &seconds, &mbit); err != nil || bytes != 2000 {
			t.Errorf("%q: %v", lines[2], err)
		}
		if _, err := fmt.Sscanf(lines[3], "%d iters in %f seconds = %f usec/iter", &iters, &seconds, &usec); err != nil || iters != 10 {
			t.Errorf("%q: %v", lines[3], err)
		}
	}
}

// Options that differ are not told by the protocol: whichever end notices says so.
func TestPingpongOptionsDiffer(t *testing.T) {
	verbstest.Long(t)
	for name, c := range map[string]struct {
		server, client string
		want           [2]string // of the errors; "" is none
	}{
		"a shorter message": {"-s 64", "-s 32", [2]string{"has 32 bytes, expected 64: give both ends the same --size", ""}},
		"a longer message":  {"-s 32", "-s 64", [2]string{"other options than --size 32", "other options than --size 64"}},
		"fewer messages":    {"-n 10", "-n 5", [2]string{"5 of 10 messages have come", ""}},
		"unmarked pages":    {"-c -n 5", "-n 5", [2]string{"does the client run with --chk, too?", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const patience = " --timeout 10s" // each waits for the other to start
			ends, codes := pairOfPingpongs(t, c.server+patience, c.client+patience)
			for i, p := range ends {
				if c.want[i] != "" && (codes[i] != exit.Critical || !strings.Contains(p.stderr.String(), c.want[i])) {
					t.Errorf("end %d: exit code %d: %s: no %q", i, codes[i], p.stderr.String(), c.want[i])
				}
			}
		})
	}
}

// A peer that ends in the middle is noticed, and the error says how far it was.
func TestPingpongPeerDies(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	list := hostsOf(freshList(t, 2))
	const line = "pingpong -d soft:lo --timeout 10s -n 100000000 --bind "
	server := launch(t, words(line+list[0])...)
	client := program(t, words(line+list[1]+" "+list[0])...)
	client.Stdout = nil
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Wait() }() // it was killed
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "  remote address:") {
			break
		}
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	code := server.end(t, hung)
	if text := server.stderr.String(); code != exit.Critical || !strings.Contains(text, "of 100000000 messages have come") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// A soft device that did not get RoCE's UDP port cannot meet a NIC.
func TestPingpongUDPPortTaken(t *testing.T) {
	list := hostsOf(freshList(t, 2))
	taken, err := net.ListenPacket("udp4", net.JoinHostPort(list[1], fmt.Sprint(route.RoCEPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	server := launch(t, words("pingpong -d soft:lo --bind "+list[0])...)
	code, _, stderr := finish(t, words("pingpong -d soft:lo --bind "+list[1]+" "+list[0])...)
	if code != exit.Critical || !strings.Contains(stderr, "UDP port 4791 of "+list[1]) || !strings.Contains(stderr, "--bind") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	// The server goes on waiting for somebody else; Ctrl-C ends it.
	if err := server.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := server.end(t, hung); code != exit.Interrupted {
		t.Errorf("the server: exit code %d: %s", code, server.stderr.String())
	}
}

func TestPingpongBadInput(t *testing.T) {
	for line, want := range map[string][]string{
		"pingpong a b":                {`"b"`, "HOST"},
		"pingpong -s 0":               {"--size 0", "2G"},
		"pingpong -s 3G":              {"--size", "2G"},
		"pingpong -m 1500":            {"1500", "1024"},
		"pingpong -r 0":               {"receives"},
		"pingpong -n none":            {`"none"`, "messages"},
		"pingpong -p 70000":           {"70000", "65535"},
		"pingpong -d nothing:here":    {"nothing:here", "soft:lo"},
		"pingpong --ib-dev nothing:x": {"nothing:x"},
		"pingpong --bind here":        {`"here"`, "IP address"},
		"pingpong -o":                 {"--odp", "on demand"},
		"pingpong -O":                 {"--iodp", "implicit ODP"},
		"pingpong -P":                 {"--prefetch"},
		"pingpong -t":                 {"--ts", "time stamps"},
		"pingpong -j":                 {"--dm", "device memory"},
		"pingpong -N":                 {"--new_send", "ibv_wr_send"},
		"lab b host more":             {`"more"`, "HOST"},
		"lab b --rkey 5":              {"--rkey", "lab b"},
		"lab b --size 0":              {"--size 0"},
	} {
		misused(t, line, want)
	}
}

// Lab b is the same exchange, explained.
func TestLabB(t *testing.T) {
	hosts := hostsOf(freshList(t, 2))
	free, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	server := launch(t, words(fmt.Sprintf("lab b --explain --device soft:lo --size 100 --tcp-port %d", port))...)
	client := launch(t, words(fmt.Sprintf("pingpong -d soft:lo -s 100 --tcp-port %d --bind %s %s", port, hosts[1], hosts[0]))...)
	for i, p := range []*process{client, server} {
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("end %d: exit code %d: %s", i, code, p.stderr.String())
		}
	}
	for _, part := range []string{"ibv_rc_pingpong -d DEVICE -g INDEX", "  local address:  LID", "  remote address: LID", "200000 bytes in", "usec/iter is a round trip"} {
		if !strings.Contains(server.stdout.String(), part) {
			t.Errorf("no %q in %s", part, server.stdout.String())
		}
	}
}
