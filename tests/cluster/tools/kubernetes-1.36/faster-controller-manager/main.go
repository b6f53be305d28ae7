// kube-controller-manager whose Job controller waits N times as short as the stock one; FASTER=N.
package main

import (
	"log"
	"os"
	"strconv"
	"time"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/pkg/controller/job"
)

func main() {
	factor, err := strconv.Atoi(os.Getenv("FASTER"))
	if err != nil || factor < 1 {
		log.Fatalf("FASTER=%q is not a whole number of at least 1", os.Getenv("FASTER"))
	}
	for _, wait := range []*time.Duration{
		&job.SyncJobBatchPeriod,
		&job.DefaultJobPodFailureBackOff,
		&job.MaxJobPodFailureBackOff,
	} {
		*wait /= time.Duration(factor)
	}
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
