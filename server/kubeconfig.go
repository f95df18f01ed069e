package server

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with everything inside, for its owner alone, with which
// the administrator of certificates reaches url.
func WriteKubeconfig(name, url string, certificates *Certificates) error {
	ca, err := os.ReadFile(certificates.CAFile)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	cert, err := os.ReadFile(certificates.AdminCertFile)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	key, err := os.ReadFile(certificates.AdminKeyFile)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["weir"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts["weir"] = &clientcmdapi.Context{Cluster: "weir", AuthInfo: "admin"}
	config.CurrentContext = "weir"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return writeFile(name, data, 0o600)
}
