// Package pcap reads classic pcap files of Ethernet or raw IP packets: what the
// tests of the wire format and the ICRC checker need, and no more. pcapng files
// are refused with a hint.
//
// Format: IETF draft-ietf-opsawg-pcap.
package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Link types (https://www.tcpdump.org/linktypes.html).
const (
	linkEthernet = 1
	linkRaw      = 101
)

const (
	magicMicro = 0xa1b2c3d4
	magicNano  = 0xa1b23c4d
	magicNG    = 0x0a0d0d0a

	fileHeaderLen   = 24
	recordHeaderLen = 16
	// maxRecord is libpcap's own limit for a record (MAXIMUM_SNAPLEN).
	maxRecord = 256 << 10
)

// ErrFormat says that a file is no pcap file or a damaged one.
var ErrFormat = errors.New("pcap: bad file")

// Reader reads records one by one.
type Reader struct {
	r     io.Reader
	order binary.ByteOrder
	tick  time.Duration // of the fraction in a timestamp
	link  uint32
	count int
}

// NewReader reads the file header.
func NewReader(r io.Reader) (*Reader, error) {
	var h [fileHeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, fmt.Errorf("%w: no file header: %w", ErrFormat, err)
	}
	p := &Reader{r: r}
	for _, p.order = range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch magic := p.order.Uint32(h[:]); magic {
		case magicMicro:
			p.tick = time.Microsecond
		case magicNano:
			p.tick = time.Nanosecond
		case magicNG:
			return nil, fmt.Errorf("%w: this is pcapng: convert it with editcap -F pcap", ErrFormat)
		}
		if p.tick != 0 {
			break
		}
	}
	if p.tick == 0 {
		return nil, fmt.Errorf("%w: starts with % x, expected the magic number %#x in either byte order", ErrFormat, h[:4], uint32(magicMicro))
	}
	p.link = p.order.Uint32(h[20:]) & 0xffff // the rest is about the frame check sequence
	if p.link != linkEthernet && p.link != linkRaw {
		return nil, fmt.Errorf("%w: link type %d, expected %d (Ethernet) or %d (raw IP): capture on one interface, not on \"any\"",
			ErrFormat, p.link, linkEthernet, linkRaw)
	}
	return p, nil
}

// Record is a captured frame.
type Record struct {
	Number int // from 1, as other tools count
	Time   time.Time
	Frame  []byte // from the link layer header on
	Len    int    // bytes it had on the wire; more than len(Frame) where the capture cut it

	link uint32
}

// Next returns the next record, or io.EOF after the last. The frame is the
// caller's to keep.
func (p *Reader) Next() (Record, error) {
	var h [recordHeaderLen]byte
	if _, err := io.ReadFull(p.r, h[:]); err == io.EOF {
		return Record{}, err
	} else if err != nil {
		return Record{}, fmt.Errorf("%w: record %d has no whole header: %w", ErrFormat, p.count+1, err)
	}
	p.count++
	size := p.order.Uint32(h[8:])
	if size > maxRecord {
		return Record{}, fmt.Errorf("%w: record %d has %d bytes, expected %d at most", ErrFormat, p.count, size, maxRecord)
	}
	rec := Record{
		Number: p.count,
		Time:   time.Unix(int64(p.order.Uint32(h[:])), int64(p.order.Uint32(h[4:]))*int64(p.tick)),
		Frame:  make([]byte, size),
		Len:    int(p.order.Uint32(h[12:])),
		link:   p.link,
	}
	if _, err := io.ReadFull(p.r, rec.Frame); err != nil {
		return Record{}, fmt.Errorf("%w: record %d ends early: %w", ErrFormat, p.count, err)
	}
	return rec, nil
}

// ReadAll returns all records.
func ReadAll(r io.Reader) ([]Record, error) {
	p, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	var all []Record
	for {
		rec, err := p.Next()
		if err == io.EOF { //nolint:errorlint // io.ReadFull returns it bare, and io.ErrUnexpectedEOF for a part
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
}

// IP returns the IPv4 or IPv6 packet of a record, behind Ethernet and VLAN
// headers and without Ethernet's padding; nil where there is another protocol
// or no whole IP header. A packet that the capture cut is returned as it is.
func (r *Record) IP() []byte {
	const (
		etherIPv4 = 0x0800
		etherIPv6 = 0x86dd
		etherVLAN = 0x8100
		etherQinQ = 0x88a8
	)
	b := r.Frame
	if r.link == linkEthernet {
		kind, at := 0, 12
		for {
			if len(b) < at+2 {
				return nil
			}
			kind = int(binary.BigEndian.Uint16(b[at:]))
			at += 2
			if kind != etherVLAN && kind != etherQinQ {
				break
			}
			at += 2 // tag
		}
		if kind != etherIPv4 && kind != etherIPv6 {
			return nil
		}
		b = b[at:]
	}
	switch size := 0; {
	case len(b) >= 20 && b[0]>>4 == 4:
		size = int(binary.BigEndian.Uint16(b[2:]))
		return b[:min(size, len(b))]
	case len(b) >= 40 && b[0]>>4 == 6:
		size = 40 + int(binary.BigEndian.Uint16(b[4:]))
		return b[:min(size, len(b))]
	}
	return nil
}
