package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// envtestCommand makes the directory that envtest of controller-runtime starts a control plane from.
func envtestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest [DIR]",
		Short: "Make a directory from which controller-runtime's envtest starts Weir",
		Long: `Make a directory from which envtest of controller-runtime starts Weir: kube-apiserver
and etcd in it are links to this program, kubectl to the one on the PATH. Without DIR
it is one in the user's cache. It prints what to set:

  eval "$(weir envtest)"
  go test ./...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			dir, err := assetsDir(args)
			if err != nil {
				return err
			}
			self, err := ownFile(os.Executable)
			if err != nil {
				return err
			}
			if err := linkAssets(dir, self, command.ErrOrStderr()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", quoted(dir))
			return err
		},
	}
}

func assetsDir(args []string) (string, error) {
	if len(args) > 0 {
		return filepath.Abs(args[0])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w; name a directory: weir envtest DIR", err)
	}
	return filepath.Join(cache, "weir", "envtest"), nil
}

// ownFile is the file of this program, without links. One that `go run` made is gone soon, and no link to it would do.
func ownFile(executable func() (string, error)) (string, error) {
	file, err := executable()
	if err == nil {
		file, err = filepath.EvalSymlinks(file)
	}
	if err != nil {
		return "", fmt.Errorf("the file of this program: %w", err)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(file), "/") {
		if strings.HasPrefix(part, "go-build") {
			return "", fmt.Errorf("%s is a file that go run removes: build weir first, or install it", file)
		}
	}
	return file, nil
}

// linkAssets puts links into dir. What is not there for want of a kubectl is told in notes.
func linkAssets(dir, self string, notes io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	extension := ""
	if runtime.GOOS == "windows" {
		extension = ".exe"
	}
	for _, name := range []string{kubeAPIServer, etcdName} {
		if err := link(self, filepath.Join(dir, name+extension)); err != nil {
			return err
		}
	}
	at := filepath.Join(dir, "kubectl"+extension)
	kubectl, err := exec.LookPath("kubectl")
	if err == nil {
		kubectl, err = filepath.EvalSymlinks(kubectl)
	}
	if err == nil {
		kubectl, err = filepath.Abs(kubectl)
	}
	if err == nil {
		return linkKubectl(kubectl, at)
	}
	if !exists(at) {
		_, err = fmt.Fprintf(notes, "kubectl: there is none on the PATH, and so none in %s. envtest starts without it; for tests that run it, get it as\n"+
			"https://kubernetes.io/docs/tasks/tools/ says and run this again.\n", dir)
		return err
	}
	return nil
}

// linkKubectl leaves one that is there as it is, whatever it is, unless it is a link.
func linkKubectl(kubectl, at string) error {
	if info, err := os.Lstat(at); err == nil && info.Mode().Type() != fs.ModeSymlink {
		return nil
	}
	return link(kubectl, at)
}

// link makes a link to a file, in the place of another link. A file that is something else stays: it may be an asset that was
// downloaded.
func link(file, at string) error {
	switch info, err := os.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		if err := os.Remove(at); err != nil {
			return err
		}
	default:
		if of, err := os.Stat(file); err == nil && os.SameFile(info, of) {
			return nil
		}
		return fmt.Errorf("%s is there and is no link: remove it, or name another directory", at)
	}
	if err := os.Symlink(file, at); err == nil {
		return nil
	}
	if err := os.Link(file, at); err != nil { // where links need rights of their own
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// quoted is a word of a shell.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,="
	if strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
