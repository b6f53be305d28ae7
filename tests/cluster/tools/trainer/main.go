// The Trainer's controllers of TrainJobs and their runtimes. Its own program starts webhooks beside them, with certificates
// of its own.
package main

import (
	"fmt"
	"os"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	options "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	schedulerplugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

func main() {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, trainer.AddToScheme, jobset.AddToScheme, schedulerplugins.AddToScheme, volcano.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	configuration := ctrl.GetConfigOrDie()
	configuration.QPS, configuration.Burst = 1000, 2000
	manager, err := ctrl.NewManager(configuration, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	exitOn(err)
	ctx := ctrl.SetupSignalHandler()
	runtimes, err := core.New(ctx, manager.GetClient(), manager.GetFieldIndexer())
	exitOn(err)
	name, err := controller.SetupControllers(manager, runtimes, options.Options{})
	if err != nil {
		exitOn(fmt.Errorf("%s: %w", name, err))
	}
	exitOn(manager.Start(ctx))
}

func exitOn(err error) {
	if err != nil {
		ctrl.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}
