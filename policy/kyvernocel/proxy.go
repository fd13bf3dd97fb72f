package kyvernocel

import (
	"fmt"
	"net/textproto"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// The evaluation modes of policies about requests to a proxy (kyverno-authz).
const (
	modeEnvoy = "Envoy"
	modeHTTP  = "HTTP"
)

// A proxy has the types of requests and responses of an evaluation mode.
type proxy struct {
	request, response *messageType
	functions         func() []celgo.EnvOption
	lenient           bool // accept unknown fields of requests
	messages          []*messageType
	denial            func(*message) string
}

var proxies = map[string]*proxy{
	modeEnvoy: {
		request: envoyCheckRequest, response: envoyCheckResponse, functions: envoyFunctions,
		messages: []*messageType{envoyCheckRequest, envoyCheckResponse, envoyOK, envoyDenied, envoyHeaderOption, envoyQueryParameter, jwtToken},
		denial: func(denied *message) string {
			return fmt.Sprintf("request denied with status code %v", denied.value("status").(*message).value("code"))
		},
	},
	modeHTTP: {
		request: httpCheckRequest, response: httpCheckResponse, functions: proxyHTTPFunctions, lenient: true,
		messages: []*messageType{httpCheckRequest, httpAttributes, httpCheckResponse, httpOK, httpDenied, jwtToken},
		denial:   func(denied *message) string { return fmt.Sprintf("request denied, reason: %v", denied.value("reason")) },
	},
}

var (
	envoyHeader = newMessageType("envoy.config.core.v3.HeaderValue", map[string]*fieldType{
		"key": textField, "value": textField, "raw_value": bytesField,
	})
	envoyMetadata = newMessageType("envoy.config.core.v3.Metadata", map[string]*fieldType{
		"filter_metadata": mapOf(structField), "typed_filter_metadata": mapOf(dynField),
	})
	envoyAddress = newMessageType("envoy.config.core.v3.Address", map[string]*fieldType{
		"socket_address": newMessageType("envoy.config.core.v3.SocketAddress", map[string]*fieldType{
			"protocol": enumField("TCP", "UDP"), "address": textField, "port_value": uintField, "named_port": textField,
			"resolver_name": textField, "ipv4_compat": boolField, "network_namespace_filepath": textField,
		}).field(),
		"pipe": newMessageType("envoy.config.core.v3.Pipe", map[string]*fieldType{"path": textField, "mode": uintField}).field(),
		"envoy_internal_address": newMessageType("envoy.config.core.v3.EnvoyInternalAddress", map[string]*fieldType{
			"server_listener_name": textField, "endpoint_id": textField,
		}).field(),
	})
	envoyPeer = newMessageType("envoy.service.auth.v3.AttributeContext.Peer", map[string]*fieldType{
		"address": envoyAddress.field(), "service": textField, "labels": mapOf(textField), "principal": textField, "certificate": textField,
	})
	envoyHTTPRequest = newMessageType("envoy.service.auth.v3.AttributeContext.HttpRequest", map[string]*fieldType{
		"id": textField, "method": textField, "headers": mapOf(textField), "path": textField, "host": textField, "scheme": textField,
		"query": textField, "fragment": textField, "size": intField, "protocol": textField, "body": textField, "raw_body": bytesField,
		"header_map": newMessageType("envoy.config.core.v3.HeaderMap", map[string]*fieldType{"headers": listOf(envoyHeader.field())}).field(),
	})
	envoyCheckRequest = newMessageType("envoy.service.auth.v3.CheckRequest", map[string]*fieldType{
		"attributes": newMessageType("envoy.service.auth.v3.AttributeContext", map[string]*fieldType{
			"source": envoyPeer.field(), "destination": envoyPeer.field(),
			"request": newMessageType("envoy.service.auth.v3.AttributeContext.Request", map[string]*fieldType{
				"time": timeField, "http": envoyHTTPRequest.field(),
			}).field(),
			"context_extensions": mapOf(textField), "metadata_context": envoyMetadata.field(), "route_metadata_context": envoyMetadata.field(),
			"tls_session": newMessageType("envoy.service.auth.v3.AttributeContext.TLSSession", map[string]*fieldType{"sni": textField}).field(),
		}).field(),
	})

	envoyHeaderOption = newMessageType("envoy.config.core.v3.HeaderValueOption", map[string]*fieldType{
		"header": envoyHeader.field(), "append_action": intField, "keep_empty_value": boolField,
	})
	envoyQueryParameter = newMessageType("envoy.config.core.v3.QueryParameter", map[string]*fieldType{"key": textField, "value": textField})
	envoyOK             = newMessageType("envoy.service.auth.v3.OkHttpResponse", map[string]*fieldType{
		"headers": listOf(envoyHeaderOption.field()), "headers_to_remove": listOf(textField), "dynamic_metadata": structField,
		"response_headers_to_add": listOf(envoyHeaderOption.field()), "query_parameters_to_set": listOf(envoyQueryParameter.field()),
		"query_parameters_to_remove": listOf(textField),
	})
	envoyDenied = newMessageType("envoy.service.auth.v3.DeniedHttpResponse", map[string]*fieldType{
		"status":  envoyHTTPStatus.field(),
		"headers": listOf(envoyHeaderOption.field()), "body": textField,
	})
	envoyHTTPStatus    = newMessageType("envoy.type.v3.HttpStatus", map[string]*fieldType{"code": intField})
	envoyCheckResponse = newMessageType("envoy.service.auth.v3.CheckResponse", map[string]*fieldType{
		"status":          rpcStatus.field(),
		"denied_response": envoyDenied.field(), "ok_response": envoyOK.field(), "dynamic_metadata": structField,
	})
	rpcStatus = newMessageType("google.rpc.Status", map[string]*fieldType{"code": intField, "message": textField, "details": listOf(dynField)})

	httpAttributes = newMessageType("http.CheckRequestAttributes", map[string]*fieldType{
		"method": textField, "header": mapOf(listOf(textField)), "host": textField, "protocol": textField, "contentLength": intField,
		"body": bytesField, "scheme": textField, "path": textField, "query": mapOf(listOf(textField)), "fragment": textField,
	})
	httpCheckRequest = newMessageType("http.CheckRequest", map[string]*fieldType{
		"attributes": httpAttributes.field(),
		"mcp":        {apiservercel.DynType, partial(askMCP), func(any, bool) (ref.Val, error) { return partial(askMCP), nil }},
	})
	httpOK            = newMessageType("http.CheckResponseOk", nil)
	httpDenied        = newMessageType("http.CheckResponseDenied", map[string]*fieldType{"reason": textField})
	httpCheckResponse = newMessageType("http.CheckResponse", map[string]*fieldType{"ok": httpOK.field(), "denied": httpDenied.field()})
)

// options returns the options of the environment for a proxy's policies
// (pkg/cel of kyverno-authz).
func (p *proxy) options() []celgo.EnvOption {
	opts := []celgo.EnvOption{
		celgo.EnableMacroCallTracking(), celgo.HomogeneousAggregateLiterals(), celgo.EagerlyValidateDeclarations(true),
		celgo.DefaultUTCTimeZone(true), celgo.CrossTypeNumericComparisons(true),
		celgo.OptionalTypes(), ext.Bindings(), ext.Encoders(), ext.Lists(), ext.Math(), ext.Protos(), ext.Sets(), ext.Strings(),
		library.CIDR(), library.Format(), library.IP(), library.Lists(), library.Regex(), library.URLs(), library.Quantity(), library.SemverLib(),
		p.declare, celgo.Variable("object", p.request.celType()),
	}
	opts = append(opts, lookupFunctions(flavour{kind: Validating})...)
	opts = append(opts, kyvernolib.ImageFunctions()...)
	opts = append(opts, tokenFunctions()...)
	opts = append(opts, mcpFunctions()...)
	return append(opts, p.functions()...)
}

// declare declares the types of the proxy's messages.
func (p *proxy) declare(env *celgo.Env) (*celgo.Env, error) {
	var all []*apiservercel.DeclType
	for _, m := range p.messages {
		all = append(all, m.decl)
	}
	provider := apiservercel.NewDeclTypeProvider(all...)
	provider.SetRecognizeKeywordAsFieldName(true)
	opts, err := provider.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if env, err = opt(env); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// respondProxy evaluates a request to a proxy, and returns the response as
// Kyverno's command line reports it. The first validation that returns a
// response decides.
func (p *Policy) respondProxy(r *review) (Response, error) {
	of := proxies[p.spec.Evaluation.Mode]
	object, err := of.request.decode(r.req.Object.Object, of.lenient)
	if err != nil {
		return Response{}, &render.Error{Span: r.req.Object.Span(""), Err: fmt.Errorf("is not a valid %s: %w", of.request.name, err)}
	}
	x := r.run(p.main, policy.Version{})
	x.object, x.meter = object, cel.Meter{}
	answer, culprit, err := x.answer()
	v := verdict{outcome: policy.Skip, message: "request does not match", assumed: x.assumptions()}
	switch {
	case err != nil:
		broken := x.broken(culprit, "", err)
		if broken.outcome != policy.Error || !p.spec.ignores() {
			v = broken
		}
	case answer == nil:
	case answer.given["denied"] != nil:
		v.outcome, v.message = policy.Fail, of.denial(answer.given["denied"].(*message))
	case answer.given["denied_response"] != nil:
		v.outcome, v.message = policy.Fail, of.denial(answer.given["denied_response"].(*message))
	default:
		v.outcome, v.message = policy.Pass, "request allowed"
	}
	return p.response(v), nil
}

// answer returns the response of the first validation whose value is not null,
// or nil. The expression is the one that decided or failed.
func (r *run) answer() (*message, *cel.Expression, error) {
	if held, culprit, err := r.all(r.c.conditions); err != nil || !held {
		return nil, culprit, err
	}
	for _, e := range r.c.validations {
		v, err := r.eval(e)
		if err != nil {
			return nil, e, err
		}
		if m, ok := v.(*message); ok {
			return m, e, nil
		}
	}
	return nil, nil, nil
}

// builder declares a method of a message type. f returns the result for the
// receiver and the arguments.
func builder(name string, of *messageType, args []*celgo.Type, result *messageType, f func(m *message, args []ref.Val) ref.Val) celgo.EnvOption {
	var id strings.Builder
	id.WriteString(of.name + "_" + name)
	for _, a := range args {
		id.WriteString("_" + a.TypeName())
	}
	return celgo.Function(name, celgo.MemberOverload(id.String(), append([]*celgo.Type{of.celType()}, args...), result.celType(),
		celgo.FunctionBinding(func(values ...ref.Val) ref.Val {
			m, ok := values[0].(*message)
			if !ok {
				return types.MaybeNoSuchOverloadErr(values[0])
			}
			return f(m, values[1:])
		})))
}

// setting declares a method that sets a field to its argument.
func setting(name string, of *messageType, field string) celgo.EnvOption {
	return builder(name, of, []*celgo.Type{of.fields[field].decl.CelType()}, of, func(m *message, args []ref.Val) ref.Val { return m.with(field, args[0]) })
}

// appending declares a method that appends to a list: its argument, or the
// message that pair makes from two strings.
func appending(name string, of *messageType, field string, element *celgo.Type, pair func(key, value ref.Val) ref.Val) []celgo.EnvOption {
	add := func(m *message, v ref.Val) ref.Val {
		list := types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{v})
		return m.with(field, m.value(field).(traits.Adder).Add(list))
	}
	opts := []celgo.EnvOption{builder(name, of, []*celgo.Type{element}, of, func(m *message, args []ref.Val) ref.Val { return add(m, args[0]) })}
	if pair != nil {
		opts = append(opts, builder(name, of, []*celgo.Type{celgo.StringType, celgo.StringType}, of, func(m *message, args []ref.Val) ref.Val {
			return add(m, pair(args[0], args[1]))
		}))
	}
	return opts
}

func envoyFunctions() []celgo.EnvOption {
	header := func(key, value ref.Val) ref.Val {
		return envoyHeaderOption.of(map[string]ref.Val{"header": envoyHeader.of(map[string]ref.Val{"key": key, "value": value})})
	}
	parameter := func(key, value ref.Val) ref.Val {
		return envoyQueryParameter.of(map[string]ref.Val{"key": key, "value": value})
	}
	texts := []*celgo.Type{celgo.StringType, celgo.StringType}
	respond := func(of *messageType, field string, code int) celgo.EnvOption {
		return builder("Response", of, nil, envoyCheckResponse, func(m *message, _ []ref.Val) ref.Val {
			return envoyCheckResponse.of(map[string]ref.Val{field: m, "status": rpcStatus.of(map[string]ref.Val{"code": types.Int(code)})})
		})
	}
	opts := []celgo.EnvOption{
		celgo.Function("envoy.Allowed", celgo.Overload("envoy_allowed", nil, envoyOK.celType(),
			celgo.FunctionBinding(func(...ref.Val) ref.Val { return envoyOK.of(nil) }))),
		celgo.Function("envoy.Denied", celgo.Overload("envoy_denied", []*celgo.Type{celgo.IntType}, envoyDenied.celType(),
			celgo.UnaryBinding(func(code ref.Val) ref.Val {
				return envoyDenied.of(map[string]ref.Val{"status": envoyHTTPStatus.of(map[string]ref.Val{"code": code})})
			}))),
		celgo.Function("envoy.Header", celgo.Overload("envoy_header", texts, envoyHeaderOption.celType(), celgo.BinaryBinding(header))),
		celgo.Function("envoy.QueryParam", celgo.Overload("envoy_query_param", texts, envoyQueryParameter.celType(), celgo.BinaryBinding(parameter))),
		setting("WithBody", envoyDenied, "body"),
		setting("KeepEmptyValue", envoyHeaderOption, "keep_empty_value"),
		builder("KeepEmptyValue", envoyHeaderOption, nil, envoyHeaderOption, func(m *message, _ []ref.Val) ref.Val { return m.with("keep_empty_value", types.True) }),
		respond(envoyOK, "ok_response", 0),
		respond(envoyDenied, "denied_response", 7), // PermissionDenied
		builder("WithMessage", envoyCheckResponse, []*celgo.Type{celgo.StringType}, envoyCheckResponse, func(m *message, args []ref.Val) ref.Val {
			return m.with("status", m.value("status").(*message).with("message", args[0]))
		}),
		setting("WithMetadata", envoyCheckResponse, "dynamic_metadata"),
	}
	for _, more := range [][]celgo.EnvOption{
		appending("WithHeader", envoyOK, "headers", envoyHeaderOption.celType(), header),
		appending("WithHeader", envoyDenied, "headers", envoyHeaderOption.celType(), header),
		appending("WithoutHeader", envoyOK, "headers_to_remove", celgo.StringType, nil),
		appending("WithResponseHeader", envoyOK, "response_headers_to_add", envoyHeaderOption.celType(), header),
		appending("WithQueryParam", envoyOK, "query_parameters_to_set", envoyQueryParameter.celType(), parameter),
		appending("WithoutQueryParam", envoyOK, "query_parameters_to_remove", celgo.StringType, nil),
	} {
		opts = append(opts, more...)
	}
	return opts
}

func proxyHTTPFunctions() []celgo.EnvOption {
	// values declares a method that returns a field's values for a key. canonical
	// converts the key to the form in which it is stored.
	values := func(name, field string, canonical func(string) string) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload("http_"+name, []*celgo.Type{httpAttributes.celType(), celgo.StringType},
			celgo.ListType(celgo.StringType), celgo.BinaryBinding(func(attributes, key ref.Val) ref.Val {
				m, ok := attributes.(*message)
				s, isText := key.(types.String)
				if !ok || !isText {
					return types.MaybeNoSuchOverloadErr(attributes)
				}
				if v, found := m.value(field).(interface {
					Find(ref.Val) (ref.Val, bool)
				}).Find(types.String(canonical(string(s)))); found {
					return v
				}
				return types.NewRefValList(types.DefaultTypeAdapter, nil)
			})))
	}
	respond := func(of *messageType, field string) celgo.EnvOption {
		return builder("Response", of, nil, httpCheckResponse, func(m *message, _ []ref.Val) ref.Val {
			return httpCheckResponse.of(map[string]ref.Val{field: m})
		})
	}
	return []celgo.EnvOption{
		celgo.Function("http.Allowed", celgo.Overload("http_allowed", nil, httpOK.celType(),
			celgo.FunctionBinding(func(...ref.Val) ref.Val { return httpOK.of(nil) }))),
		celgo.Function("http.Denied", celgo.Overload("http_denied", []*celgo.Type{celgo.StringType}, httpDenied.celType(),
			celgo.UnaryBinding(func(reason ref.Val) ref.Val { return httpDenied.of(map[string]ref.Val{"reason": reason}) }))),
		values("Header", "header", textproto.CanonicalMIMEHeaderKey),
		values("QueryParam", "query", func(key string) string { return key }),
		respond(httpOK, "ok"), respond(httpDenied, "denied"),
	}
}
