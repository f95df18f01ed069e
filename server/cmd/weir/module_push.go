package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir.dev/weir/host/source"
)

// registryTimeout bounds a transfer from or to a registry.
const registryTimeout = 5 * time.Minute

// Annotations of what is pushed: the predefined ones of OCI.
const (
	annotationTitle   = "org.opencontainers.image.title"
	annotationVersion = "org.opencontainers.image.version"
)

// registryFlags say how registries and addresses are asked.
type registryFlags struct {
	plainHTTP bool
	caFile    string
}

func (f *registryFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "speak http to a registry on loopback")
	flags.StringVar(&f.caFile, "ca-file", "", "authorities in PEM that are trusted beside the system's")
}

// client fetches as the user does: by the proxy that the environment names.
func (f *registryFlags) client() (*source.Client, error) {
	cfg := source.Config{Timeout: registryTimeout, Proxy: http.ProxyFromEnvironment}
	if f.caFile != "" {
		text, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		if cfg.Roots, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
		if !cfg.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file: %s has no certificate in PEM", f.caFile)
		}
	}
	return source.NewClient(cfg)
}

// image opens an image with the user's logins. oci:// may stand before it.
func (f *registryFlags) image(client *source.Client, reference string) (*source.Image, error) {
	reference = strings.TrimPrefix(reference, "oci://")
	if scheme, _, found := strings.Cut(reference, "://"); found {
		return nil, fmt.Errorf("image %q: leave %s:// out, as in %s", reference, scheme, likeReference)
	}
	image, err := client.Image(reference, source.ImageOptions{PlainHTTP: f.plainHTTP, Credentials: source.UserCredentials()})
	if err != nil {
		if strings.Contains(err.Error(), "could not parse reference") { // all that the parser says
			err = fmt.Errorf("%w: %s", err, referenceHint(reference))
		}
		return nil, err
	}
	return image, nil
}

// likeReference is what a reference is like.
const likeReference = "registry.example/team/quotes:v1"

// referenceHint says what is wrong with a reference that does not parse.
func referenceHint(reference string) string {
	_, rest, _ := strings.Cut(reference, "/")
	repository, _, tagged := strings.Cut(rest, ":")
	switch {
	case strings.ToLower(repository) != repository:
		return "a repository has no capitals, as in " + likeReference
	case !tagged:
		return "give a tag, as in " + likeReference
	}
	return "it is REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, as in " + likeReference
}

func modulePushCommand() *cobra.Command {
	var registry registryFlags
	var annotations map[string]string
	format := outputText
	command := &cobra.Command{
		Use:   "push DIR|FILE REF",
		Short: "Put a module into an OCI registry",
		Long: `Check that a server would load the module in FILE, and write it to the tag REF,
REGISTRY/REPOSITORY:TAG, as an OCI artefact with one layer of application/wasm.
The module in DIR is built first. Printed is the reference by the manifest's
digest: sign that with cosign, and pin it in spec.source.oci.image of a Module.

The registry is logged in to as docker login or podman login left it.`,
		Example: "  weir module push quotes.wasm registry.example/team/quotes:v1",
		Args:    exactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := registry.client()
			if err != nil {
				return err
			}
			defer client.Close()
			image, err := registry.image(client, args[1])
			if err != nil {
				return err
			}
			wasm, err := readModule(command.Context(), args[0], command.ErrOrStderr())
			if err != nil {
				return err
			}
			pushed, err := pushModule(command.Context(), image, wasm, args[0], annotations)
			if err != nil {
				return err
			}
			return pushed.write(command, format)
		},
	}
	registry.add(command.Flags())
	command.Flags().StringToStringVar(&annotations, "annotation", nil, "annotations of the manifest, NAME=VALUE (default: title and version as the module says)")
	command.Flags().VarP(&format, "format", "o", "what is printed: text or json")
	return command
}

// transferred is what push and pull print.
type transferred struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
	Bytes  int    `json:"bytes"`
	File   string `json:"file,omitempty"`
}

func (p *transferred) write(command *cobra.Command, format outputFormat) error {
	if format == outputJSON {
		return writeJSON(command.OutOrStdout(), p)
	}
	t := table{command.OutOrStdout()}
	t.row("image", p.Image)
	if p.File != "" {
		t.row("file", p.File)
	}
	t.row("size", grouped(p.Bytes), "bytes")
	t.row("digest", p.Digest)
	return nil
}

func pushModule(ctx context.Context, image *source.Image, wasm []byte, file string, annotations map[string]string) (*transferred, error) {
	about, err := describe(ctx, wasm, limitFlags{})
	if err != nil {
		return nil, fmt.Errorf("%s: no server would load it: %w", file, err)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	for name, value := range map[string]string{annotationTitle: about.Name, annotationVersion: about.Version} {
		if _, set := annotations[name]; !set && value != "" {
			annotations[name] = value
		}
	}
	title, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	title = strings.TrimSuffix(filepath.Base(title), wasmSuffix) + wasmSuffix
	pinned, err := image.Push(ctx, wasm, title, annotations)
	if err != nil {
		return nil, fmt.Errorf("push: %w", loginHint(err))
	}
	return &transferred{Image: pinned, Digest: about.Digest, Bytes: len(wasm)}, nil
}

// loginHint says what to do about a registry that refuses.
func loginHint(err error) error {
	if errors.Is(err, source.ErrLogin) {
		return fmt.Errorf("%w (docker login or podman login stores credentials for a registry)", err)
	}
	return err
}
