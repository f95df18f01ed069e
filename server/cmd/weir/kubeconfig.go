package main

import (
	"errors"

	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clientConfig says how the server of a kubeconfig is reached: that of the flag, or as for kubectl.
func clientConfig(kubeconfig, context string) (*restclient.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no server is named: give --kubeconfig, or set KUBECONFIG")
	}
	return config, err
}
