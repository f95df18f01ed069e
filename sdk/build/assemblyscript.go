package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// node is a Node.js with its package manager.
type node struct{ node, npm string }

func findNode() (*node, error) {
	const get = "apt-get install nodejs npm"
	tool, err := exec.LookPath("node")
	if err != nil {
		return nil, &MissingError{Tool: "node", Why: "to run the AssemblyScript compiler", Get: get}
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, &MissingError{Tool: "npm", Why: "to install the AssemblyScript compiler", Get: get}
	}
	return &node{node: tool, npm: npm}, nil
}

// guestAssemblyScript compiles assembly/index.ts as asconfig.json says. What
// package.json requires is installed if it is not there.
func guestAssemblyScript(ctx context.Context, c Config) error {
	tools, err := findNode()
	if err != nil {
		return err
	}
	if err := tools.install(ctx, c); err != nil {
		return err
	}
	target := "release"
	if c.Debug {
		target = "debug"
	}
	_, err = run(ctx, c.Dir, nil, tools.node, ascFile, filepath.Join("assembly", "index.ts"), "--target", target, "--outFile", c.Output)
	return err
}

// ascFile is the compiler, below a guest's directory.
const ascFile = "node_modules/assemblyscript/bin/asc.js"

// install installs what package.json requires, unless it is there. Of several
// programs that build a guest at once, as tests do, one installs.
func (n *node) install(ctx context.Context, c Config) error {
	unlock, err := lock(c.Dir)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	defer unlock()
	for _, file := range []string{ascFile, "node_modules/weir-sdk/package.json"} {
		if _, err := os.Stat(filepath.Join(c.Dir, file)); err == nil {
			continue
		}
		install := "install"
		if _, err := os.Stat(filepath.Join(c.Dir, "package-lock.json")); err == nil {
			install = "ci"
		}
		if c.Log != nil {
			fmt.Fprintf(c.Log, "npm %s in %s\n", install, c.Dir)
		}
		if _, err := run(ctx, c.Dir, nil, n.npm, install, "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
			return err
		}
		break
	}
	return nil
}

// copyTo copies what a reader has to a file, and closes both.
func copyTo(file string, from io.ReadCloser) error {
	defer func() { _ = from.Close() }() // it was only read
	to, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	return nil
}
