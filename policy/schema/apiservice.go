package schema

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var apiServiceType, apiServiceDefaults = apiService()

// apiService returns the type of APIServices in apiregistration.k8s.io/v1 and
// its only default. The types are declared here to avoid a dependency on their
// module, with upstream's names because errors of the decoder contain them.
func apiService() (reflect.Type, []rule) {
	type ServiceReference struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name,omitempty"`
		Port      *int32 `json:"port,omitempty"`
	}
	type APIServiceSpec struct {
		Service               *ServiceReference `json:"service,omitempty"`
		Group                 string            `json:"group,omitempty"`
		Version               string            `json:"version,omitempty"`
		InsecureSkipTLSVerify bool              `json:"insecureSkipTLSVerify,omitempty"`
		CABundle              []byte            `json:"caBundle,omitempty"`
		GroupPriorityMinimum  int32             `json:"groupPriorityMinimum"`
		VersionPriority       int32             `json:"versionPriority"`
	}
	type APIServiceCondition struct {
		Type               string      `json:"type"`
		Status             string      `json:"status"`
		LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
		Reason             string      `json:"reason,omitempty"`
		Message            string      `json:"message,omitempty"`
	}
	type APIServiceStatus struct {
		Conditions []APIServiceCondition `json:"conditions,omitempty"`
	}
	type APIService struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`

		Spec   APIServiceSpec   `json:"spec,omitempty"`
		Status APIServiceStatus `json:"status,omitempty"`
	}
	port := on(func(_ release, s *ServiceReference) { fillPtr(&s.Port, httpsPort) })
	return reflect.TypeFor[APIService](), []rule{port}
}
