package hosts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
)

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("\ufeff# the rack\nnode1 node2:7000 # spare\n\n10.0.0.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	openMPI, mpich := filepath.Join(t.TempDir(), "hostfile"), filepath.Join(t.TempDir(), "machines")
	for name, text := range map[string]string{
		openMPI: "node0 slots = 2 max-slots=4 # of Open MPI\nnode1 max_slots=2\n",
		mpich:   "node0:2\nnode1 # of MPICH\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for list, want := range map[string]string{
		"a,b,c":                      "[a:18600 b:18600 c:18600]",
		"A b:7\tc\n":                 "[a:18600 b:7 c:18600]",
		" a , b c ":                  "[a:18600 b:18600 c:18600]",
		"a,a,a":                      "[a:18600 a:18601 a:18602]",
		"a,a:18600":                  "[a:18601 a:18600]",
		"a,b,a,b":                    "[a:18600 b:18600 a:18601 b:18601]",
		"[fd00::1]:99,fd00::2,[::1]": "[[fd00::1]:99 [fd00::2]:18600 [::1]:18600]",
		"FD00:0::1,fd00::1":          "[[fd00::1]:18600 [fd00::1]:18601]",
		"@" + file:                   "[node1:18600 node2:7000 10.0.0.3:18600]",
		"node[08-10,12] b":           "[node08:18600 node09:18600 node10:18600 node12:18600 b:18600]",
		"a,n[0-1]:7,[::1]:9":         "[a:18600 n0:7 n1:7 [::1]:9]",
		"r[1-2]n[3,5]-ib,10.0.0.[7]": "[r1n3-ib:18600 r1n5-ib:18600 r2n3-ib:18600 r2n5-ib:18600 10.0.0.7:18600]",
		"[1-2].rack,n[0,0]":          "[1.rack:18600 2.rack:18600 n0:18600 n0:18601]",
		"x,@" + file:                 "[x:18600 node1:18600 node2:7000 10.0.0.3:18600]",
		"a slots=2, b":               "[a:18600 a:18601 b:18600]",
		"n[0-1] slots=2 rack=A a":    "[n0:18600 n0:18601 n1:18600 n1:18601 a:18600]",
		"@" + openMPI:                "[node0:18600 node0:18601 node1:18600 node1:18601]",
		"@mpich:" + mpich:            "[node0:18600 node0:18601 node1:18600]",
	} {
		nodes, err := Parse(list, 18600)
		if got := fmt.Sprint(nodes); err != nil || got != want {
			t.Errorf("%q: %s, %v; expected %s", list, got, err, want)
		}
	}
}

// A list may say in which rack its hosts are.
func TestGroups(t *testing.T) {
	for list, want := range map[string]string{
		"a b":                     `["" ""]`,
		"a rack=A b rack=B":       `["A" "B"]`,
		"a rack=A, b, c group=x1": `["A" "" "x1"]`,
		"a[0-1] rack=A b[7,9]":    `["A" "A" "" ""]`,
		"a rack=A slots=2 b":      `["A" "A" ""]`,
		"a slots=2 rack=A b":      `["A" "A" ""]`,
	} {
		groups, err := Groups(list)
		nodes, parseErr := Parse(list, 18600)
		if got := fmt.Sprintf("%q", groups); err != nil || parseErr != nil || got != want || len(nodes) != len(groups) {
			t.Errorf("%q: %s, %v, %v, %v; expected %s", list, got, nodes, err, parseErr, want)
		}
	}
	for _, list := range []string{"rack=A a", "a rack=", "a colour=B"} {
		if _, err := Parse(list, 18600); !usage.Is(err) {
			t.Errorf("%q: %v: expected an error of usage", list, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	nested := filepath.Join(t.TempDir(), "nested")
	if err := os.WriteFile(nested, []byte("@other"), 0o600); err != nil {
		t.Fatal(err)
	}
	blank := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(blank, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"":                               "entry 0 is empty",
		" , ":                            "entry 0 is empty",
		",b":                             `server list ",b": entry 0 is empty: expected a host on each side of a comma; is a variable not set?`,
		"a,":                             "entry 1 is empty",
		"a b, ,c":                        "entry 2 is empty",
		"a,@" + blank:                    blank + `: server list "": entry 0 is empty`,
		"[::1":                           `entry 0 is "[::1"`,
		"b,::1]":                         `entry 1 is "::1]"`,
		"a:1,b,a:1":                      "a:1 is entry 0 and entry 2",
		"a,b:0":                          `entry 1 is "b:0"`,
		"a:70000":                        "not 1 to 65535",
		"a:":                             "not 1 to 65535",
		"a:b:c":                          "not host:port",
		"224.0.0.1":                      "a multicast address",
		"[ff02::1]:18600":                "a multicast address",
		"a,ff02::1":                      "entry 1 is \"ff02::1\": a multicast address",
		"-a":                             "not a host name",
		"a,10.0.0.1-4":                   `entry 1 is "10.0.0.1-4": no address; perhaps 10.0.0.[1-4]`,
		"node{0..3}":                     "no host name; perhaps node[0-3]",
		"n{0,3}":                         "braces are the shell's",
		"a slots=0":                      `entry 1 is "slots=0": only rack=, group=, slots= and max_slots=`,
		"a slots=2.5":                    "slots=2.5",
		"slots=2":                        "expected a host before it",
		"a slots=2 slots=3":              `"a" has a number of slots before it`,
		"a slots=99999":                  "more than 65536 hosts",
		"a:7 slots=2":                    "a:7 is entry 0 and entry 1",
		"a/b":                            "not a host name",
		"n[3-1]":                         `"3-1" in "n[3-1]"`,
		"n[1-2-3]":                       `"1-2-3" in "n[1-2-3]"`,
		"n[0-99999999]":                  "more than 65536 hosts",
		"n[0-3,x":                        `entry 0 is "n[0-3"`,
		"n[a-b]":                         `expected host, host:port, host[0-3,7]`,
		"@/no/such/file":                 "no such file",
		"@" + nested:                     "cannot name another",
		"a:65535,a":                      "", // fine: the second takes the first port
		"a..b":                           "not a host name",
		"a,10.0.0.256":                   `entry 1 is "10.0.0.256": neither an IPv4 address nor a host name`,
		strings.Repeat("a", 64) + ".svc": "not a host name",
	} {
		_, err := Parse(list, 18600)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", list, err)
			}
			continue
		}
		if !errors.Is(err, usage.Err) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q: %v; expected one line of usage with %q", list, err, want)
		}
	}
	if _, err := Parse("a,a", 65535); !errors.Is(err, usage.Err) {
		t.Errorf("ports beyond 65535: %v", err)
	}
}

func TestDigestDependsOnOrder(t *testing.T) {
	a, _ := Parse("a,b", 18600)
	b, _ := Parse("b,a", 18600)
	c, _ := Parse("A:18600 b", 18600)
	if Digest(a) == Digest(b) || Digest(a) != Digest(c) {
		t.Errorf("digests %s %s %s: expected the first and the last to be equal", Digest(a), Digest(b), Digest(c))
	}
}

func TestResolveNamesTheEntry(t *testing.T) {
	nodes, _ := Parse("127.0.0.1,no-such-host.invalid", 18600)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Resolve(ctx, nodes, func([][]netip.AddrPort) {})
	if !errors.Is(err, usage.Err) || !strings.Contains(fmt.Sprint(err), `entry 1, "no-such-host.invalid"`) {
		t.Errorf("%v: expected an error that names entry 1", err)
	}
	nodes, _ = Parse("localhost,::1", 18600)
	found, err := Resolve(t.Context(), nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if addrs := First(found, nodes); addrs[0].String() != "127.0.0.1:18600" || addrs[1].String() != "[::1]:18600" {
		t.Errorf("%v", addrs)
	}
}

// A port that is perhaps a number of ranks is a port, and asked about.
func TestPortsLikeSlots(t *testing.T) {
	for list, asks := range map[string]bool{"a:8,b:8": true, "a:8": true, "a:8,b:9": false, "a:8,b": false, "a:7000,b:7000": false, "a": false} {
		nodes, err := Parse(list, 18600)
		if got := PortsLikeSlots(nodes); err != nil || strings.Contains(got, `"a slots=8"`) != asks {
			t.Errorf("%q: %q, %v; expected a question: %v", list, got, err, asks)
		}
	}
}

// Whatever a list is, it is refused or names nodes, each of which means itself.
func FuzzList(f *testing.F) {
	for _, list := range []string{"a,b,c", "a:1 b:2", "[fd00::1]:99,fd00::2,[::1%eth0]", "a,a:18600", ",", "a:0", "[", "x\x00y"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if strings.Contains(list, "@") {
			return // a file
		}
		nodes, err := Parse(list, 18600)
		if err != nil {
			return
		}
		words := make([]string, len(nodes))
		for i, n := range nodes {
			words[i] = n.String()
		}
		again, err := Parse(strings.Join(words, ","), 1)
		if err != nil || !slices.Equal(again, nodes) {
			t.Errorf("%q is %q, which is %v, %v", list, words, again, err)
		}
	})
}
