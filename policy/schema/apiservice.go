package schema

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An apiService is an APIService of apiregistration.k8s.io/v1, whose module
// nothing else here needs.
type apiService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   apiServiceSpec   `json:"spec,omitempty"`
	Status apiServiceStatus `json:"status,omitempty"`
}

type apiServiceSpec struct {
	Service               *apiServiceReference `json:"service,omitempty"`
	Group                 string               `json:"group,omitempty"`
	Version               string               `json:"version,omitempty"`
	InsecureSkipTLSVerify bool                 `json:"insecureSkipTLSVerify,omitempty"`
	CABundle              []byte               `json:"caBundle,omitempty"`
	GroupPriorityMinimum  int32                `json:"groupPriorityMinimum"`
	VersionPriority       int32                `json:"versionPriority"`
}

type apiServiceReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Port      *int32 `json:"port,omitempty"`
}

type apiServiceStatus struct {
	Conditions []apiServiceCondition `json:"conditions,omitempty"`
}

type apiServiceCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}
