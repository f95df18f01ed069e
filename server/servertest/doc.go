// Package servertest runs a server in the process of a test or an example, and finds the
// clients that it is tried with.
//
//	env := servertest.Start(t, servertest.Options{})
//	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
//
// The server is a real one: TLS on a free port of loopback, an embedded etcd below a temporary
// directory, the administrator's certificate. [Environment.Restart] starts it again on the same
// data and the same port, so that clients find it again. [Kubectl] and [KubectlModule] give a
// kubectl.
package servertest
