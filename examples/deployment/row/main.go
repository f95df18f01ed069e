// Command row prints what etcd holds under a key, as `etcdctl get KEY` does: row ENDPOINT KEY.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: row ENDPOINT KEY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "row:", err)
		os.Exit(1)
	}
}

func run(endpoint, key string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the process ends
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := client.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(answer.Kvs) == 0 {
		return fmt.Errorf("no row %s", key)
	}
	fmt.Printf("%s\n%s\n", answer.Kvs[0].Key, answer.Kvs[0].Value)
	return nil
}
