//go:build !nodl

package launch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/ebitengine/purego"

	"ringcli/configs/usage"
	"ringcli/verbs/memory"
)

// pmix speaks to a process manager through libpmix, which is loaded at run time (the PMIx
// Standard, version 4). What is put can be got after a fence that collects it.
type pmix struct {
	lib        *pmixLibrary
	space      []byte // the namespace
	rank, size int
	round      int
	memory     *memory.Block // of what C reads and writes, by one call at a time
	left       bool          // a call was left behind, which may still write there
}

// soname is libpmix's name for the dynamic linker since version 2.
const soname = "libpmix.so.2"

// pmixLibrary are the addresses of its functions.
type pmixLibrary struct{ init, put, commit, fence, get, finalize, describe uintptr }

var loadPMIx = sync.OnceValues(func() (*pmixLibrary, error) {
	handle, err := purego.Dlopen(soname, purego.RTLD_NOW|purego.RTLD_GLOBAL) // its plugins look for it
	if err != nil {
		return nil, usage.Errorf("the launcher speaks PMIx, and %s cannot be loaded (%w): expected it on all nodes (Debian, Ubuntu: libpmix2), or --list, --master-addr, or srun --mpi=pmi2", soname, err)
	}
	l := &pmixLibrary{}
	for name, fn := range map[string]*uintptr{
		"PMIx_Init": &l.init, "PMIx_Put": &l.put, "PMIx_Commit": &l.commit, "PMIx_Fence": &l.fence,
		"PMIx_Get": &l.get, "PMIx_Finalize": &l.finalize, "PMIx_Error_string": &l.describe,
	} {
		if *fn, err = purego.Dlsym(handle, name); err != nil {
			return nil, usage.Errorf("%s: %w: expected PMIx 2 or later", soname, err)
		}
	}
	return l, nil
})

// What pmix_common.h has, on 64 bits.
const (
	nameSize  = 256                     // PMIX_MAX_NSLEN and a zero
	procSize  = nameSize + 4            // pmix_proc_t: the namespace, a rank
	keySize   = 512                     // PMIX_MAX_KEYLEN and a zero
	valueSize = 32                      // pmix_value_t: a type, and at 8 a union
	infoSize  = keySize + 8 + valueSize // pmix_info_t: a key, flags, a value

	typeBool, typeString, typeUint32 = 1, 3, 14
	scopeGlobal                      = 3
	anyRank                          = math.MaxUint32 - 1 // PMIX_RANK_WILDCARD
)

// Where things lie in the block.
const (
	procAt, otherAt, keyAt, valueAt = 0, 512, 1024, 1536
	infoAt, resultAt, textAt        = 2048, 3072, 4096
)

// maxPMIx bounds what one rank gives.
const maxPMIx = 64 << 10

func openPMIx(ctx context.Context) (_ Launcher, err error) {
	lib, err := loadPMIx()
	if err != nil {
		return nil, err
	}
	block, err := memory.Alloc(textAt + 2*maxPMIx)
	if err != nil {
		return nil, err
	}
	p := &pmix{lib: lib, memory: block}
	b := block.Bytes()
	if err := p.call(ctx, "PMIx_Init, the launcher's answer", lib.init, p.at(procAt), 0, 0); err != nil {
		return nil, errors.Join(err, p.free())
	}
	defer func() {
		// PMIx_Finalize beside a call that was left behind would be one more to wait for.
		if err != nil && !p.left {
			_ = p.Close() // why it was not opened is the news
		}
	}()
	p.space, _, _ = bytes.Cut(bytes.Clone(b[procAt:procAt+nameSize]), []byte{0})
	p.rank = int(binary.NativeEndian.Uint32(b[procAt+nameSize:]))
	value, err := p.get(ctx, anyRank, "pmix.job.size")
	if err != nil {
		return nil, err
	}
	if kind := binary.NativeEndian.Uint16(value); kind != typeUint32 {
		return nil, fmt.Errorf("PMIx: the number of ranks is of type %d: expected %d", kind, typeUint32)
	}
	p.size = int(binary.NativeEndian.Uint32(value[8:]))
	if p.rank >= p.size {
		return nil, fmt.Errorf("PMIx: rank %d of %d: expected a smaller rank", p.rank, p.size)
	}
	return p, nil
}

func (p *pmix) at(offset int) uintptr { return uintptr(p.memory.Addr()) + uintptr(offset) }

// call calls a function that returns a status. What has not come back by the deadline is
// left behind, with the memory that it may write to, which is never freed then.
func (p *pmix) call(ctx context.Context, what string, fn uintptr, args ...uintptr) error {
	done := make(chan int32, 1)
	go func() {
		r, _, _ := purego.SyscallN(fn, args...)
		done <- int32(r)
	}()
	select {
	case status := <-done:
		if status == 0 {
			return nil
		}
		r, _, _ := purego.SyscallN(p.lib.describe, uintptr(status))
		return fmt.Errorf("rank %s of %s: awaited %s: the launcher's PMIx says %s (%d)%s", os.Getenv("PMIX_RANK"), os.Getenv("PMIX_NAMESPACE"), what, text(r), status, unreachable(status))
	case <-ctx.Done():
		p.left = true
		return fmt.Errorf("rank %s of %s: awaited %s: %w", os.Getenv("PMIX_RANK"), os.Getenv("PMIX_NAMESPACE"), what, context.Cause(ctx))
	}
}

// errUnreachable is PMIX_ERR_UNREACH (pmix_common.h).
const errUnreachable = -25

// unreachable says what to do where the server does not answer, as in a container that does not
// share the host's network and files.
func unreachable(status int32) string {
	if status != errUnreachable {
		return ""
	}
	cure := ": in a container, share the host's network"
	if dir := os.Getenv("PMIX_SERVER_TMPDIR"); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			cure = ": " + dir + " (PMIX_SERVER_TMPDIR) is not here: in a container, mount it and share the host's network"
		}
	}
	if inStep() {
		return cure + ", or use srun --mpi=pmi2, or --launcher slurm"
	}
	return cure + ", or give --master-addr and --master-port"
}

// text is a C string, or "".
func text(at uintptr) string {
	if at == 0 {
		return ""
	}
	n := 0
	for memory.Bytes(uint64(at)+uint64(n), 1)[0] != 0 {
		n++
	}
	return string(memory.Bytes(uint64(at), n))
}

// place puts a C string into the block.
func (p *pmix) place(at int, s string) {
	b := p.memory.Bytes()
	copy(b[at:], s)
	b[at+len(s)] = 0
}

// get returns the value of a key of a rank, which stays the library's to the end: it is
// read once, and small.
func (p *pmix) get(ctx context.Context, rank uint32, key string) ([]byte, error) {
	b := p.memory.Bytes()
	clear(b[otherAt : otherAt+procSize])
	copy(b[otherAt:], p.space)
	binary.NativeEndian.PutUint32(b[otherAt+nameSize:], rank)
	p.place(keyAt, key)
	clear(b[resultAt : resultAt+8])
	of := "the launcher"
	if rank != anyRank {
		of = fmt.Sprintf("rank %d", rank)
	}
	if err := p.call(ctx, of+" to say "+key, p.lib.get, p.at(otherAt), p.at(keyAt), 0, 0, p.at(resultAt)); err != nil {
		return nil, err
	}
	return memory.Bytes(binary.NativeEndian.Uint64(b[resultAt:]), valueSize), nil
}

func (p *pmix) Rank() int { return p.rank }
func (p *pmix) Size() int { return p.size }

func (p *pmix) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	p.round++
	b := p.memory.Bytes()
	coded := base64.RawURLEncoding.EncodeToString(own)
	if len(coded) >= maxPMIx {
		return nil, fmt.Errorf("PMIx: %d bytes of a rank: expected fewer than %d", len(own), maxPMIx*3/4)
	}
	key := fmt.Sprintf("ringcli-%d", p.round)
	p.place(keyAt, key)
	p.place(textAt, coded)
	p.value(valueAt, typeString, uint64(p.at(textAt)))
	if err := p.call(ctx, "PMIx_Put", p.lib.put, scopeGlobal, p.at(keyAt), p.at(valueAt)); err != nil {
		return nil, err
	}
	if err := p.call(ctx, "PMIx_Commit", p.lib.commit); err != nil {
		return nil, err
	}
	clear(b[infoAt : infoAt+infoSize])
	p.place(infoAt, "pmix.collect")
	p.value(infoAt+keySize+8, typeBool, 1)
	if err := p.fence(ctx, p.at(infoAt), 1); err != nil {
		return nil, err
	}
	all := make([][]byte, p.size)
	for r := range all {
		value, err := p.get(ctx, uint32(r), key)
		if err != nil {
			return nil, err
		}
		if kind := binary.NativeEndian.Uint16(value); kind != typeString {
			return nil, fmt.Errorf("PMIx: what rank %d has put is of type %d: expected %d", r, kind, typeString)
		}
		if all[r], err = base64.RawURLEncoding.DecodeString(text(uintptr(binary.NativeEndian.Uint64(value[8:])))); err != nil {
			return nil, fmt.Errorf("PMIx: what rank %d has put: %w", r, err)
		}
	}
	return all, nil
}

func (p *pmix) value(at int, kind uint16, data uint64) {
	b := p.memory.Bytes()
	clear(b[at : at+valueSize])
	binary.NativeEndian.PutUint16(b[at:], kind)
	binary.NativeEndian.PutUint64(b[at+8:], data) // a bool is its first byte where that is the lowest
}

func (p *pmix) fence(ctx context.Context, infos uintptr, count int) error {
	what := fmt.Sprintf("all %d ranks at PMIx_Fence, which does not say who is not there", p.size)
	return p.call(ctx, what, p.lib.fence, 0, 0, infos, uintptr(count))
}

func (p *pmix) Barrier(ctx context.Context) error { return p.fence(ctx, 0, 0) }

func (p *pmix) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(p.call(ctx, "PMIx_Finalize", p.lib.finalize, 0, 0), p.free())
}

func (p *pmix) free() error {
	if p.left {
		return nil
	}
	return p.memory.Free()
}
