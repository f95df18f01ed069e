// Command getkubectl prints the path of a kubectl: the one on PATH, or else one that it builds from its modules.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"weir.dev/weir/server/servertest/tools"
)

func main() {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no kubectl on PATH: building one, which takes a minute or two the first time")
		if path, err = tools.BuildKubectl(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(path)
}
