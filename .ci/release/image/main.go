// Command image writes a container image from scratch, without a daemon: one program and
// /tmp, as an OCI image layout in a tar file, which podman load, skopeo and docker load
// read. The same program and arguments make the same file.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user and the group that the program runs as: one that owns nothing, with a
// number so that Kubernetes' runAsNonRoot can see that it is not root.
const nobody = "65532:65532"

func main() {
	var o options
	flag.StringVar(&o.program, "program", "", "the static program's `file`")
	flag.StringVar(&o.arch, "arch", "", "its processors, as GOARCH has them")
	flag.StringVar(&o.version, "version", "", "its version, the image's tag as well")
	flag.StringVar(&o.revision, "revision", "", "the commit that it was built from")
	flag.Int64Var(&o.epoch, "epoch", 0, "the time of everything in it, in `seconds` since 1970")
	flag.StringVar(&o.out, "out", "", "the `file` to write")
	flag.Parse()
	if err := o.write(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	program, arch, version, revision, out string
	epoch                                 int64
}

func (o *options) time() time.Time { return time.Unix(o.epoch, 0).UTC() }

// write makes the image and its file.
func (o *options) write() (err error) {
	image, err := o.image()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = index.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.tag(),
		"io.containerd.image.name":          "localhost/ringcli:" + o.tag(),
	}))
	if err != nil {
		return err
	}
	return o.pack(dir)
}

// tag is the version in letters that a tag may have.
func (o *options) tag() string {
	return string(bytes.ReplaceAll([]byte(o.version), []byte("+"), []byte("-")))
}

// image makes the image: a layer and what is to be known of it.
func (o *options) image() (v1.Image, error) {
	files, err := o.layer()
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: o.arch, OS: "linux", Created: v1.Time{Time: o.time()},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: nobody, WorkingDir: "/tmp", Env: []string{"PATH=/usr/bin"},
			Entrypoint: []string{"/usr/bin/ringcli"}, Cmd: []string{"local", "-n", "2"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "ringcli",
				"org.opencontainers.image.version":  o.version,
				"org.opencontainers.image.revision": o.revision,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: o.time()}, CreatedBy: "ringcli " + o.version},
	})
}

// layer is the tar archive of the files in the image.
func (o *options) layer() ([]byte, error) {
	program, err := os.ReadFile(o.program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "usr/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "usr/bin/ringcli", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
	} {
		h.ModTime = o.time()
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// pack writes a folder's files, in the order of their names, as a tar archive.
func (o *options) pack(dir string) (err error) {
	out, err := os.Create(o.out)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: o.time()}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
