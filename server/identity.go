package server

import "os"

// name names the server in what it writes for others to read.
func (s *Server) name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + s.listener.Addr().String()
}
