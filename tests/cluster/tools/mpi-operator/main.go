// The MPI operator's controller of MPIJobs v2beta1. Its own program waits for a Lease, and serves its health on all
// addresses.
package main

import (
	"os"

	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	kubeflowscheme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	informers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog"
)

func main() {
	configuration, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	exitOn(err)
	configuration.QPS, configuration.Burst = 1000, 2000
	utilruntime.Must(kubeflowscheme.AddToScheme(clientgoscheme.Scheme)) // for its Events
	kube, jobs := kubernetes.NewForConfigOrDie(configuration), clientset.NewForConfigOrDie(configuration)
	ofKube := kubeinformers.NewSharedInformerFactory(kube, 0)
	ofJobs := informers.NewSharedInformerFactory(jobs, 0)
	running, err := controller.NewMPIJobController(
		kube, jobs, nil, nil,
		ofKube.Core().V1().ConfigMaps(),
		ofKube.Core().V1().Secrets(),
		ofKube.Core().V1().Services(),
		ofKube.Batch().V1().Jobs(),
		ofKube.Core().V1().Pods(),
		ofKube.Scheduling().V1().PriorityClasses(),
		ofJobs.Kubeflow().V2beta1().MPIJobs(),
		metav1.NamespaceAll, "")
	exitOn(err)
	stop := make(chan struct{})
	ofKube.Start(stop)
	ofJobs.Start(stop)
	exitOn(running.Run(2, stop))
}

func exitOn(err error) {
	if err != nil {
		klog.Fatalf("cannot run: %v", err)
	}
}
