package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/host/source"
)

func moduleVerifyCommand() *cobra.Command {
	var registry registryFlags
	var digest, keyFile, signature string
	format := outputText
	command := &cobra.Command{
		Use:   "verify REF|FILE|URL --key PUB",
		Short: "Check the signature of a module",
		Long: `Check that a public key has signed a module, as a server does for spec.verify of a
Module. The key is PEM: ECDSA on P-256, Ed25519 or RSA.

What is in a registry has its signatures there, in cosign's format of simple
signing (cosign sign --key; from cosign 3 on with --new-bundle-format=false).
A file or an https address has a detached signature (cosign sign-blob --key),
given by --signature as a file or an https address.

What is there as a file is a file; oci:// makes clear that a reference is meant.`,
		Example: `  weir module verify registry.example/team/quotes:v1 --key cosign.pub
  weir module verify quotes.wasm --key cosign.pub --signature quotes.wasm.sig`,
		Args: exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if keyFile == "" {
				return errors.New("--key is required: a file of the public key in PEM")
			}
			keys, err := readKeys(keyFile)
			if err != nil {
				return err
			}
			want := &source.Expectation{Digest: digest, Keys: keys}
			if err := readSignature(want, signature); err != nil {
				return err
			}
			client, err := registry.client()
			if err != nil {
				return err
			}
			defer client.Close()
			from, err := registry.source(client, args[0])
			if err != nil {
				return err
			}
			if _, image := from.(*source.Image); !image && signature == "" {
				return fmt.Errorf("%s has no signature beside it: give --signature", args[0])
			}
			a, err := fetchVerified(command.Context(), client, from, want)
			if err != nil {
				return err
			}
			verified := transferred{Image: a.Image, Digest: a.Digest, Bytes: len(a.Module)}
			if a.Image == "" {
				verified.Image = args[0]
			}
			if format == outputText {
				fmt.Fprintln(command.OutOrStdout(), "signature is good")
			}
			return verified.write(command, format)
		},
	}
	registry.add(command.Flags())
	command.Flags().StringVar(&keyFile, "key", "", "file of the public key in PEM; of several, one must have signed")
	command.Flags().StringVar(&signature, "signature", "", "file or https address of a detached signature, in base64")
	command.Flags().StringVar(&digest, "digest", "", "what the module must have besides, sha256:…")
	command.Flags().VarP(&format, "format", "o", "what is printed: text or json")
	return command
}

// source opens a file, an address or an image.
func (f *registryFlags) source(client *source.Client, name string) (source.Source, error) {
	if strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") {
		return client.URL(name)
	}
	if _, err := os.Stat(name); err == nil || filepath.IsAbs(name) || strings.HasPrefix(name, ".") {
		return source.File(filepath.Dir(name), filepath.Base(name)), nil
	}
	image, err := f.image(client, name)
	if err != nil && !strings.HasPrefix(name, "oci://") {
		return nil, fmt.Errorf("%s is no file, and %w", name, err)
	}
	return image, err
}

func readKeys(name string) (*source.PublicKeys, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	keys, err := source.ParsePublicKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", name, err)
	}
	return keys, nil
}

// readSignature sets the detached signature, which may be at an address.
func readSignature(want *source.Expectation, name string) error {
	if name == "" {
		return nil
	}
	if strings.Contains(name, "://") {
		want.SignatureURL = name
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--signature: %w", err)
	}
	if want.Signature, err = source.ParseSignature(text); err != nil {
		return fmt.Errorf("--signature %s: %w", name, err)
	}
	return nil
}
