// Package mapping finds what lies behind addresses of this process, and the file by which
// other processes can map the same memory.
//
// # What Linux offers
//
// Memory that is mapped shared has a file: a file of a file system, a memfd, or one without a
// name of the kernel's own (MAP_SHARED|MAP_ANONYMOUS). [Place.Open] opens it, by whichever
// way there is, and looks whether it is that file:
//
//   - /proc/self/map_files, which has every mapping, those without a name too, but wants
//     CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN (proc_pid_map_files(5));
//   - a descriptor of it that this process still has;
//   - the path in /proc/self/maps, if the file has still that name.
//
// Nothing about such memory changes: it is as shared as it was, with one process more.
//
// Memory that is mapped privately (malloc's, MAP_PRIVATE) has no file. Nobody can be given it
// without privileges but by copying (process_vm_readv(2), which package memfd does where ptrace
// is allowed). [Place.Move] puts a file's pages in its place, at the same addresses and with the same
// content. That is not the same memory, and what rests on the old pages breaks:
//
//   - who writes during the move: the write may be lost. So the caller says that nobody does,
//     and memory of which a page is in part another's is refused;
//   - devices that have pinned the pages (adapters, GPUs, io_uring) go on with the old ones.
//     Only where they were marked for it (MADV_DONTFORK) can that be seen;
//   - a child that this process forks shares the memory from then on, where it would have had a
//     copy;
//   - memory that is locked, of huge pages of hugetlbfs, of a stack, sealed, watched by userfaultfd or executable
//     is refused, and so is Go's heap, which the garbage collector manages.
//
// /proc/self/smaps says all of this, and what the kernel writes there is what is believed.
package mapping
