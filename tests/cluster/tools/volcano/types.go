// Package volcano makes Go hold what controller-gen reads: Volcano's types, and all that they are made of.
package volcano

import _ "volcano.sh/apis/pkg/apis/batch/v1alpha1"
