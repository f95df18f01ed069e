package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/host/source"
)

// wasmSuffix ends the name of a module's file.
const wasmSuffix = ".wasm"

func modulePullCommand() *cobra.Command {
	var registry registryFlags
	var file, digest, keyFile string
	format := outputText
	command := &cobra.Command{
		Use:   "pull REF",
		Short: "Get a module from an OCI registry",
		Long: `Write the module at REF, REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, to a
file. With --digest or --key nothing is written unless they hold.`,
		Example: "  weir module pull registry.example/team/quotes:v1 -o quotes.wasm",
		Args:    exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := registry.client()
			if err != nil {
				return err
			}
			defer client.Close()
			image, err := registry.image(client, args[0])
			if err != nil {
				return err
			}
			want := &source.Expectation{Digest: digest}
			if keyFile != "" {
				if want.Keys, err = readKeys(keyFile); err != nil {
					return err
				}
			}
			a, err := fetchVerified(command.Context(), client, image, want)
			if err != nil {
				return err
			}
			if file == "" {
				repository, _, _ := strings.Cut(a.Image, "@")
				file = path.Base(repository) + wasmSuffix
			}
			if err := writeWhole(file, a.Module); err != nil {
				return err
			}
			pulled := transferred{Image: a.Image, Digest: a.Digest, Bytes: len(a.Module), File: file}
			return pulled.write(command, format)
		},
	}
	registry.add(command.Flags())
	command.Flags().StringVarP(&file, "out", "o", "", "file to write (default: the name of the repository and .wasm, in the current directory)")
	command.Flags().StringVar(&digest, "digest", "", "what the module must have, sha256:… as weir module inspect prints it")
	command.Flags().StringVar(&keyFile, "key", "", "file of the public key in PEM that must have signed the image")
	command.Flags().Var(&format, "format", "what is printed: text or json")
	return command
}

// fetchVerified fetches what is wanted.
func fetchVerified(ctx context.Context, client *source.Client, from source.Source, want *source.Expectation) (*source.Artefact, error) {
	if want.Digest != "" {
		if err := source.CheckDigest(want.Digest); err != nil {
			return nil, fmt.Errorf("--digest: %w", err)
		}
	}
	a, err := from.Fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", loginHint(err))
	}
	if err := client.Verify(ctx, from, a, want); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return a, nil
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // of a file that was not renamed
		}
	}()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { //nolint:gosec // as a compiler writes it
		return err
	}
	return os.Rename(f.Name(), name)
}
