package kyvernocel

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/kyvernolib"
)

var (
	jwtToken   = newMessageType("jwt.Token", map[string]*fieldType{"Claims": structField, "Valid": boolField})
	keySetType = celgo.OpaqueType("jwk.Set")
	jsonType   = celgo.OpaqueType("json.Json")
	mcpType    = celgo.OpaqueType("mcp.MCP")
)

// tokenFunctions declares the functions for JSON and JSON Web Tokens. Tokens are
// checked at a fixed time (assumedToken).
func tokenFunctions() []celgo.EnvOption {
	return []celgo.EnvOption{
		celgo.Variable("json", jsonType),
		celgo.Function("Unmarshal", celgo.MemberOverload("kyverno_json_unmarshal", []*celgo.Type{jsonType, celgo.DynType}, celgo.DynType,
			celgo.BinaryBinding(func(_, text ref.Val) ref.Val { return kyvernolib.TextFunction(kyvernolib.ParseJSON)(text) }))),
		celgo.Function("jwks.Fetch", celgo.Overload("kyverno_jwks_fetch", []*celgo.Type{celgo.StringType}, keySetType,
			celgo.UnaryBinding(func(url ref.Val) ref.Val { return ask("needs the keys at %v, and nothing is fetched", url) }))),
		celgo.Function("jwt.Decode",
			celgo.Overload("kyverno_jwt_decode_key", []*celgo.Type{celgo.StringType, celgo.StringType}, jwtToken.celType(),
				celgo.BinaryBinding(func(token, key ref.Val) ref.Val {
					t, ok := token.(types.String)
					k, isText := key.(types.String)
					if !ok || !isText {
						return types.MaybeNoSuchOverloadErr(token)
					}
					v, err := decodeToken(string(t), []byte(k))
					if err != nil {
						return types.WrapErr(err)
					}
					return v
				})),
			celgo.Overload("kyverno_jwt_decode_set", []*celgo.Type{celgo.StringType, keySetType}, jwtToken.celType(),
				celgo.BinaryBinding(func(_, _ ref.Val) ref.Val { return ask("needs keys that are fetched") }))),
	}
}

var tokenHashes = map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}

// decodeToken verifies a token that is signed with a shared key, and reads it.
func decodeToken(token string, key []byte) (ref.Val, error) {
	if len(token) > kyvernolib.MaxData {
		return nil, fmt.Errorf("a token of more than %d bytes refused", kyvernolib.MaxData)
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil, errors.New("jwt.Parse: failed to parse token: not header.payload.signature")
	}
	var header struct{ Alg string }
	if err := decodePart(parts[0], &header); err != nil {
		return nil, err
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, fmt.Errorf("jwt.Parse: failed to parse token: %w", err)
	}
	newHash := tokenHashes[header.Alg]
	if newHash == nil {
		return nil, fmt.Errorf("jwt.Parse: failed to verify: a shared key can't verify algorithm %.20q", header.Alg)
	}
	sum := hmac.New(newHash, key)
	sum.Write([]byte(parts[0] + "." + parts[1]))
	if !hmac.Equal(sum.Sum(nil), signature) {
		return nil, errors.New("jwt.Parse: failed to verify: the signature is not of this key")
	}
	var claims map[string]any
	if err := decodePart(parts[1], &claims); err != nil {
		return nil, err
	}
	if claims["aud"] != nil { // Kyverno can't convert the list of audiences
		return nil, errors.New("proto: invalid type: []string")
	}
	return jwtToken.of(map[string]ref.Val{"Claims": kyvernolib.Frozen(claims), "Valid": types.Bool(validNow(claims))}), nil
}

func decodePart(part string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("jwt.Parse: failed to parse token: %w", err)
	}
	return nil
}

// validNow reports whether a token with these claims is valid at the fixed time.
func validNow(claims map[string]any) bool {
	now := float64(kyvernolib.FixedNow().Unix())
	at := func(claim string, otherwise float64) float64 {
		if t, ok := claims[claim].(float64); ok {
			return math.Floor(t)
		}
		return otherwise
	}
	return now < at("exp", math.Inf(1)) && now >= at("nbf", math.Inf(-1)) && now >= at("iat", math.Inf(-1))
}

const askMCP = "needs to read a request of the Model Context Protocol, which is not evaluated"

// mcpFunctions declares the functions for the Model Context Protocol. Only the
// names of methods are decided.
func mcpFunctions() []celgo.EnvOption {
	unknown := celgo.FunctionBinding(func(...ref.Val) ref.Val { return ask(askMCP) })
	opts := []celgo.EnvOption{
		celgo.Variable("mcp", mcpType),
		celgo.Function("Parse", celgo.MemberOverload("mcp_parse", []*celgo.Type{mcpType, celgo.DynType}, celgo.DynType, unknown)),
	}
	for _, of := range []string{"String", "Int", "Float", "Bool", "StringSlice", "IntSlice", "FloatSlice", "BoolSlice"} {
		opts = append(opts, celgo.Function("Get"+of+"Argument", celgo.MemberOverload("mcp_get_"+of,
			[]*celgo.Type{celgo.DynType, celgo.StringType, celgo.DynType}, celgo.DynType, unknown)))
	}
	for name, value := range map[string]string{
		"Initialize": "initialize", "Ping": "ping", "ResourcesList": "resources/list", "ResourcesTemplatesList": "resources/templates/list",
		"ResourcesRead": "resources/read", "PromptsList": "prompts/list", "PromptsGet": "prompts/get", "ToolsList": "tools/list",
		"ToolsCall": "tools/call", "SetLogLevel": "logging/setLevel", "ElicitationCreate": "elicitation/create",
	} {
		opts = append(opts, celgo.Constant("mcp."+name+"Method", celgo.StringType, types.String(value)))
	}
	return opts
}
