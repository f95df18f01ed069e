// Command tool does for demo.sh what a shell cannot: it finds a kubectl and a free port, reads a row of etcd, and writes
// without a pause while something else happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"weir.dev/weir/server/servertest/tools"
)

const usage = `usage:
  tool kubectl                     print the path of kubectl, which is built when there is none
  tool port                        print a free port of loopback
  tool row ENDPOINT KEY            print the row of a key in etcd
  tool write KUBECONFIG PATH       patch the object at PATH over and over, and say when it has done so once; on SIGTERM print
                                   how often, and how often it failed`

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "kubectl":
		return kubectl(ctx)
	case len(args) == 1 && args[0] == "port":
		return port()
	case len(args) == 3 && args[0] == "row":
		return row(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "write":
		return write(ctx, args[1], args[2])
	}
	return errors.New(usage)
}

func kubectl(ctx context.Context) error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		if path, err = tools.BuildKubectl(ctx); err != nil {
			return err
		}
	}
	fmt.Println(path)
	return nil
}

func port() error {
	number, err := tools.FreePort()
	if err != nil {
		return err
	}
	fmt.Println(number)
	return nil
}

func row(ctx context.Context, endpoint, key string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	got, err := client.Get(ctx, key)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	for _, kv := range got.Kvs {
		fmt.Printf("%s\n%s\n", kv.Key, kv.Value)
	}
	if len(got.Kvs) == 0 {
		err = fmt.Errorf("no row %s", key)
	}
	return errors.Join(err, client.Close())
}

func write(ctx context.Context, kubeconfig, path string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	stopped, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	writes, failed := 0, 0
	for ; stopped.Err() == nil; writes++ {
		if err := patch(ctx, client, config.Host+path, writes); err != nil {
			failed++
			fmt.Println(err)
		}
		if writes == 0 {
			fmt.Println("the first write is done")
		}
	}
	fmt.Printf("%d writes, %d failed\n", writes, failed)
	if failed > 0 {
		return errors.New("some writes failed")
	}
	return nil
}

// patch writes a number into an annotation of the object at url.
func patch(ctx context.Context, client *http.Client, url string, number int) error {
	body := fmt.Sprintf(`{"metadata":{"annotations":{"demo/write":"%d"}}}`, number)
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", string(types.MergePatchType))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return errors.Join(err, resp.Body.Close())
}
