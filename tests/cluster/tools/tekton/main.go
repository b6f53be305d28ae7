// Tekton's controllers of PipelineRuns and TaskRuns. Its own program starts servers beside them that listen on all
// addresses of a machine.
package main

import (
	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	"github.com/tektoncd/pipeline/pkg/reconciler/pipelinerun"
	"github.com/tektoncd/pipeline/pkg/reconciler/taskrun"
	"k8s.io/utils/clock"
	filtered "knative.dev/pkg/client/injection/kube/informers/factory/filtered"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/signals"
)

const image = "example.invalid/tekton" // none is ever run

func main() {
	configuration := injection.ParseAndGetRESTConfigOrDie()
	configuration.QPS, configuration.Burst = 1000, 2000
	ctx := filtered.WithSelectors(signals.NewContext(), v1beta1.ManagedByLabelKey)
	ctx, startInformers := injection.EnableInjectionOrDie(ctx, configuration)
	logger, _ := sharedmain.SetupLoggerOrDie(ctx, "tekton")
	ctx = logging.WithLogger(ctx, logger)
	watcher := sharedmain.SetupConfigMapWatchOrDie(ctx, logger)
	options := &pipeline.Options{Images: pipeline.Images{
		EntrypointImage:        image,
		NopImage:               image,
		SidecarLogResultsImage: image,
		ShellImage:             image,
		ShellImageWin:          image,
		WorkingDirInitImage:    image,
	}}
	controllers := []*controller.Impl{
		taskrun.NewController(options, clock.RealClock{})(ctx, watcher),
		pipelinerun.NewController(options, clock.RealClock{})(ctx, watcher),
	}
	if err := watcher.Start(ctx.Done()); err != nil {
		logger.Fatal(err)
	}
	startInformers()
	if err := controller.StartAll(ctx, controllers...); err != nil {
		logger.Fatal(err)
	}
}
