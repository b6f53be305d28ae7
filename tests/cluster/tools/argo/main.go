// Argo's workflow controller. Its own program starts servers beside it that listen on all addresses of a machine.
//
// No executor runs in the pods of the test cluster. So this program also reports their outputs, as the executor does in
// the container `wait` before it ends.
package main

import (
	"context"
	"log"
	"os"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	wfclientset "github.com/argoproj/argo-workflows/v3/pkg/client/clientset/versioned"
	"github.com/argoproj/argo-workflows/v3/workflow/common"
	"github.com/argoproj/argo-workflows/v3/workflow/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const image = "example.invalid/argoexec" // is never run

func main() {
	ctx := context.Background()
	configuration, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	exitOn(err)
	configuration.QPS, configuration.Burst = 1000, 2000
	client, workflows := kubernetes.NewForConfigOrDie(configuration), wfclientset.NewForConfigOrDie(configuration)
	workflowController, err := controller.NewWorkflowController(
		ctx, configuration, client, workflows, os.Getenv("NAMESPACE"), "", image, "IfNotPresent", "text",
		common.ConfigMapName, false,
	)
	exitOn(err)
	exitOn(reportOutputs(ctx, client, workflows))
	workflowController.Run(ctx, 8, 1, 4, 1, 1)
}

// reportOutputs reports the outputs of pods whose container `wait` has ended with 0, without any output.
func reportOutputs(ctx context.Context, client kubernetes.Interface, workflows wfclientset.Interface) error {
	ofWorkflows := informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = common.LabelKeyWorkflow
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 10*time.Minute, ofWorkflows)
	report := func(found any) {
		pod, is := found.(*corev1.Pod)
		if !is || !hasEnded(pod) {
			return
		}
		result := &wfv1.WorkflowTaskResult{ObjectMeta: metav1.ObjectMeta{
			Name: pod.Annotations[common.AnnotationKeyNodeID],
			Labels: map[string]string{
				common.LabelKeyWorkflow:               pod.Labels[common.LabelKeyWorkflow],
				common.LabelKeyReportOutputsCompleted: "true",
			},
			OwnerReferences: pod.OwnerReferences,
		}}
		results := workflows.ArgoprojV1alpha1().WorkflowTaskResults(pod.Namespace)
		if _, err := results.Create(ctx, result, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			log.Printf("no report for pod %s: %v", pod.Name, err)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    report,
		UpdateFunc: func(_, changed any) { report(changed) },
	})
	factory.Start(ctx.Done())
	return err
}

func hasEnded(pod *corev1.Pod) bool {
	for _, one := range pod.Status.ContainerStatuses {
		if one.Name == common.WaitContainerName {
			return one.State.Terminated != nil && one.State.Terminated.ExitCode == 0
		}
	}
	return false
}

func exitOn(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
