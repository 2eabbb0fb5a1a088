package wire

import "testing"

// TestOpcodes spells the table of RC out (IBTA volume 1, table 38; Linux
// drivers/infiniband/sw/rxe/rxe_opcode.c).
func TestOpcodes(t *testing.T) {
	const (
		send  = Valid | IsRequest | IsSend | HasPayload
		write = Valid | IsRequest | IsWrite | HasPayload
		resp  = Valid | IsResponse | IsRead | HasPayload
		takes = NeedsRecv
		done  = CompletesRecv
	)
	table := map[Opcode]struct {
		name      string
		headerLen int
		flags     OpFlags
	}{
		0x00: {"SEND_FIRST", 12, send | IsFirst | takes},
		0x01: {"SEND_MIDDLE", 12, send | IsMiddle},
		0x02: {"SEND_LAST", 12, send | IsLast | done},
		0x03: {"SEND_LAST_IMM", 16, send | IsLast | HasImm | done},
		0x04: {"SEND_ONLY", 12, send | IsOnly | takes | done},
		0x05: {"SEND_ONLY_IMM", 16, send | IsOnly | HasImm | takes | done},
		0x06: {"WRITE_FIRST", 28, write | IsFirst | HasRETH},
		0x07: {"WRITE_MIDDLE", 12, write | IsMiddle},
		0x08: {"WRITE_LAST", 12, write | IsLast},
		0x09: {"WRITE_LAST_IMM", 16, write | IsLast | HasImm | takes | done},
		0x0a: {"WRITE_ONLY", 28, write | IsOnly | HasRETH},
		0x0b: {"WRITE_ONLY_IMM", 32, write | IsOnly | HasRETH | HasImm | takes | done},
		0x0c: {"READ_REQUEST", 28, Valid | IsRequest | IsRead | IsOnly | HasRETH},
		0x0d: {"READ_RESP_FIRST", 16, resp | IsFirst | HasAETH},
		0x0e: {"READ_RESP_MIDDLE", 12, resp | IsMiddle},
		0x0f: {"READ_RESP_LAST", 16, resp | IsLast | HasAETH},
		0x10: {"READ_RESP_ONLY", 16, resp | IsOnly | HasAETH},
		0x11: {"ACKNOWLEDGE", 16, Valid | IsResponse | IsOnly | HasAETH},
		0x12: {"ATOMIC_ACK", 24, Valid | IsResponse | IsAtomic | IsOnly | HasAETH | HasAtomicAck},
		0x13: {"COMPARE_SWAP", 40, Valid | IsRequest | IsAtomic | IsOnly | HasAtomicETH},
		0x14: {"FETCH_ADD", 40, Valid | IsRequest | IsAtomic | IsOnly | HasAtomicETH},
		0x16: {"SEND_LAST_INV", 12, Valid | IsRequest | IsLast | HasPayload},
		0x17: {"SEND_ONLY_INV", 12, Valid | IsRequest | IsOnly | HasPayload},
		0x64: {"UD_SEND_ONLY", 12, Valid},
		0x65: {"UD_SEND_ONLY_IMM", 12, Valid},
		0x81: {"CNP", 12, Valid},
	}
	for o := SendFirst; o <= WriteOnlyImm; o++ {
		row := table[0x81]
		row.name = "UC_" + table[o].name
		table[o|0x20] = row
	}
	for i := range 256 {
		o := Opcode(i)
		want, known := table[o]
		if o.Flags() != want.flags || o.HeaderLen() != want.headerLen {
			t.Errorf("%v: flags %#x, %d header bytes; expected %#x and %d", o, o.Flags(), o.HeaderLen(), want.flags, want.headerLen)
		}
		if known && o.String() != want.name || !known && o.String()[:6] != "opcode" {
			t.Errorf("opcode %#02x is named %q, expected %q", i, o, want.name)
		}
		if o.HeaderLen() > MaxHeaderLen {
			t.Errorf("%v has %d header bytes, more than MaxHeaderLen", o, o.HeaderLen())
		}
	}
	if got := Opcode(0x15).String(); got != "opcode 0x15" {
		t.Errorf("unknown opcode is %q", got)
	}
}

func TestOpFlags(t *testing.T) {
	f := WriteOnlyImm.Flags()
	if f&(HasRETH|HasImm|HasAETH) != HasRETH|HasImm || f&Starts == 0 || f&Ends == 0 || WriteFirst.Flags()&Ends != 0 {
		t.Errorf("flags of WRITE_ONLY_IMM are %#x", f)
	}
}
