package main

import (
	"encoding/binary"
	"fmt"
)

// order follows the responses of each queue pair: they go out in the order of their
// PSNs, so that nothing with a later PSN stands between the responses of a READ. A
// requester that sees such a thing takes the rest of the READ for lost. What has the
// PSN that is due, or an earlier one, is an answer anew or a NAK.
type order map[string]*reading

// reading is a READ that is being answered.
type reading struct {
	open bool
	next uint32 // PSN
}

// check looks at one packet that is good, from its IP header on.
func (o order) check(ip []byte) error {
	h, _ := ipHeader(ip)
	bth := ip[h+8:]
	opcode := bth[0]
	if opcode < 13 || opcode > 18 { // RC's responses
		return nil
	}
	addrs := ip[12:20]
	if ip[0]>>4 == 6 {
		addrs = ip[8:40]
	}
	key := string(addrs) + string(bth[5:8]) // and the QPN
	psn := binary.BigEndian.Uint32(bth[8:]) & 0xffffff
	r := o[key]
	if r == nil {
		r = &reading{}
		o[key] = r
	}
	ahead := int32((psn-r.next)<<8) >> 8
	was := *r
	switch opcode {
	case 13: // READ_RESP_FIRST
		*r = reading{true, psn + 1}
	case 14: // READ_RESP_MIDDLE
		if r.open {
			r.next = psn + 1 // more may be missing from the capture
		}
		return nil
	case 15: // READ_RESP_LAST
		r.open = false
		return nil
	}
	if was.open && ahead > 0 {
		r.open = r.open && opcode == 13
		return fmt.Errorf("PSN %d in the middle of a READ's responses, before PSN %d", psn, was.next&0xffffff)
	}
	return nil
}
