// Command argocd is the part of Argo CD that syncs: repository server, application controller and API server, and the
// cache that they share, as one binary. The name it is called by (a symbolic link) says which program it is.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	apiserver "github.com/argoproj/argo-cd/v3/cmd/argocd-server/commands"
	"github.com/argoproj/argo-cd/v3/util/log"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

var programs = map[string]func() *cobra.Command{
	"argocd-application-controller": controller.NewCommand,
	"argocd-repo-server":            reposerver.NewCommand,
	"argocd-server":                 apiserver.NewCommand,
	"argocd-cache":                  newCache,
}

// newCache stands in for Redis: only a cache lies in it, and a test cluster must not need a daemon of the system.
func newCache() *cobra.Command {
	address := ""
	command := &cobra.Command{
		Use: "argocd-cache",
		RunE: func(*cobra.Command, []string) error {
			server := miniredis.NewMiniRedis()
			if err := server.StartAddr(address); err != nil {
				return err
			}
			defer server.Close()
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
			// Its keys grow older only when they are told to.
			second := time.NewTicker(time.Second)
			defer second.Stop()
			for {
				select {
				case <-second.C:
					server.FastForward(time.Second)
				case <-stop:
					return nil
				}
			}
		},
	}
	command.Flags().StringVar(&address, "address", "127.0.0.1:6379", "host and port to listen on")
	return command
}

func main() {
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	program, known := programs[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintln(os.Stderr, "call this binary as argocd-application-controller, -repo-server, -server or -cache")
		os.Exit(2)
	}
	if err := program().Execute(); err != nil {
		os.Exit(1)
	}
}
