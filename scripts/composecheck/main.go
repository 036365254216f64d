// composecheck loads a compose file as `docker compose config` does, with every profile, without an engine.
//
//	go run . ../../docker-compose.yaml
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithDotEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		fail(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		fail(err)
	}
	fmt.Printf("%s: %d services: %v\n", project.Name, len(project.Services), project.ServiceNames())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
