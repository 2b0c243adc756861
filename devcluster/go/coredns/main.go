// Command coredns is CoreDNS with the few plugins that a cluster's DNS needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

// In CoreDNS the order of this list is the order of the plugin chain.
func init() {
	dnsserver.Directives = []string{"bind", "health", "errors", "kubernetes"}
}

func main() { coremain.Run() }
