package tools

import (
	"context"
	"fmt"
	"os/exec"
)

// BuildWeir builds the server from this module's source, each time anew, as the file binary. It must be called in a
// directory of the module.
func BuildWeir(ctx context.Context, binary string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "weir.dev/weir/server/cmd/weir").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return nil
}
