// Package kyvernolib has the functions that Kyverno adds to CEL and that need only
// their arguments: hashes, data formats, random texts, certificates and image
// references. Functions that ask a cluster or a registry are in policy/kyvernocel.
package kyvernolib

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"  //nolint:gosec // a function that policies have
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
)

// MaxData bounds the bytes that functions read or return.
const MaxData = 4 << 20

// PureFunctions returns the functions that depend only on their arguments.
func PureFunctions() []celgo.EnvOption {
	var opts []celgo.EnvOption
	add := func(more ...celgo.EnvOption) { opts = append(opts, more...) }
	for _, h := range []struct {
		name string
		sum  func([]byte) []byte
	}{
		{"md5", func(b []byte) []byte { s := md5.Sum(b); return s[:] }},
		{"sha1", func(b []byte) []byte { s := sha1.Sum(b); return s[:] }},
		{"sha256", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }},
	} {
		sum := TextFunction(func(s string) ref.Val { return types.String(hex.EncodeToString(h.sum([]byte(s)))) })
		add(unary(h.name, celgo.StringType, celgo.StringType, sum), unary("hash."+h.name, celgo.StringType, celgo.StringType, sum))
	}
	add(
		unary("json.unmarshal", celgo.DynType, celgo.DynType, TextFunction(ParseJSON)),
		unary("json.marshal", celgo.DynType, celgo.StringType, marshalJSON),
		unary("yaml.parse", celgo.DynType, celgo.DynType, TextFunction(parseYAML)),
		unary("gzip.compress", celgo.StringType, celgo.BytesType, TextFunction(compress)),
		unary("gzip.decompress", celgo.BytesType, celgo.StringType, decompress),
		unary("x509.decode", celgo.StringType, celgo.DynType, TextFunction(decodeCertificate)),
		unary("time.toCron", celgo.TimestampType, celgo.StringType, toCron),
		binary("time.truncate", []*celgo.Type{celgo.TimestampType, celgo.DurationType}, celgo.TimestampType, truncate),
		binary("math.round", []*celgo.Type{celgo.DoubleType, celgo.IntType}, celgo.DoubleType, round),
		unary("isImage", celgo.StringType, celgo.BoolType, TextFunction(isImage)),
	)
	for _, name := range []string{"parseServiceAccount", "user.parseServiceAccount"} {
		add(unary(name, celgo.StringType, celgo.MapType(celgo.StringType, celgo.StringType), TextFunction(parseServiceAccount)))
	}
	for _, name := range []string{"random", "random.random"} {
		add(celgo.Function(name,
			celgo.Overload(Overload(name, "default"), nil, celgo.StringType, celgo.FunctionBinding(func(...ref.Val) ref.Val { return randomString(defaultPattern) })),
			celgo.Overload(Overload(name, "string"), []*celgo.Type{celgo.StringType}, celgo.StringType, celgo.UnaryBinding(TextFunction(randomString)))))
	}
	lists := []*celgo.Type{celgo.ListType(celgo.DynType), celgo.ListType(celgo.DynType), celgo.StringType, celgo.StringType}
	for _, name := range []string{"listObjToMap", "transform.listObjToMap"} {
		add(celgo.Function(name, celgo.Overload(Overload(name, "lists"), lists, celgo.MapType(celgo.DynType, celgo.DynType), celgo.FunctionBinding(listObjToMap))))
	}
	return append(opts, ImageFunctions()...)
}

// Overload names one overload of a function.
func Overload(name, of string) string {
	return "kyverno_" + strings.ReplaceAll(name, ".", "_") + "_" + of
}

func unary(name string, arg, result *celgo.Type, f func(ref.Val) ref.Val) celgo.EnvOption {
	return celgo.Function(name, celgo.Overload(Overload(name, "1"), []*celgo.Type{arg}, result, celgo.UnaryBinding(f)))
}

func binary(name string, args []*celgo.Type, result *celgo.Type, f func(x, y ref.Val) ref.Val) celgo.EnvOption {
	return celgo.Function(name, celgo.Overload(Overload(name, "2"), args, result, celgo.BinaryBinding(f)))
}

// TextFunction adapts a function of a string.
func TextFunction(f func(string) ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		s, ok := v.(types.String)
		switch {
		case !ok:
			return types.MaybeNoSuchOverloadErr(v)
		case len(s) > MaxData:
			return types.NewErr("a text of more than %d bytes refused", MaxData)
		}
		return f(string(s))
	}
}

// Frozen converts a JSON value to a CEL value.
func Frozen(tree any) ref.Val {
	return cel.Freeze(tree)
}

// ParseJSON returns the value of a JSON text.
func ParseJSON(s string) ref.Val {
	var tree any
	if err := json.Unmarshal([]byte(s), &tree); err != nil {
		return types.NewErr("invalid JSON")
	}
	return Frozen(tree)
}

func parseYAML(s string) ref.Val {
	var tree any
	if err := yaml.Unmarshal([]byte(s), &tree); err != nil {
		return types.NewErr("invalid YAML")
	}
	return Frozen(tree)
}

func marshalJSON(v ref.Val) ref.Val {
	tree, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return types.WrapErr(err)
	}
	data, err := json.Marshal(tree.(*structpb.Value).AsInterface())
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(data)
}

func compress(s string) ref.Val {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		return types.WrapErr(err)
	}
	if err := w.Close(); err != nil {
		return types.WrapErr(err)
	}
	return types.Bytes(b.Bytes())
}

func decompress(v ref.Val) ref.Val {
	data, ok := v.(types.Bytes)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return types.WrapErr(err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxData+1))
	switch {
	case err != nil:
		return types.WrapErr(err)
	case len(text) > MaxData:
		return types.NewErr("a text of more than %d bytes refused", MaxData)
	}
	return types.String(text)
}

func toCron(v ref.Val) ref.Val {
	t, ok := v.(types.Timestamp)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	fields := []int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())}
	texts := make([]string, len(fields))
	for i, n := range fields {
		texts[i] = strconv.Itoa(n)
	}
	return types.String(strings.Join(texts, " "))
}

func truncate(x, y ref.Val) ref.Val {
	t, ok := x.(types.Timestamp)
	d, ok2 := y.(types.Duration)
	if !ok || !ok2 {
		return types.MaybeNoSuchOverloadErr(x)
	}
	return types.Timestamp{Time: t.Truncate(d.Duration)}
}

// round rounds to a number of decimal places, which may be negative.
func round(x, y ref.Val) ref.Val {
	f, ok := x.(types.Double)
	places, ok2 := y.(types.Int)
	if !ok || !ok2 {
		return types.MaybeNoSuchOverloadErr(x)
	}
	const most = 15 // significant digits of a double
	if places > most {
		return f
	}
	scale := math.Pow10(int(max(places, -400)))
	if scale == 0 {
		return types.Double(0)
	}
	return types.Double(math.Round(float64(f)*scale) / scale)
}

// parseServiceAccount splits system:serviceaccount:namespace:name; for other users
// both parts are empty.
func parseServiceAccount(s string) ref.Val {
	tree := map[string]any{"Name": "", "Namespace": ""}
	if rest, ok := strings.CutPrefix(s, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			tree["Namespace"], tree["Name"] = namespace, name
		}
	}
	return Frozen(tree)
}

// listObjToMap returns a map from the values of a field in one list of objects
// to the values of another field in a second list.
func listObjToMap(args ...ref.Val) ref.Val {
	keys, ok := args[0].(traits.Lister)
	values, ok2 := args[1].(traits.Lister)
	if !ok || !ok2 {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if keys.Size() != values.Size() {
		return types.NewErr("listObjToMap: lists of different lengths")
	}
	m := map[ref.Val]ref.Val{}
	for i := types.Int(0); i < keys.Size().(types.Int); i++ {
		key, err := field(keys.Get(i), args[2])
		if err != nil {
			return err
		}
		value, err := field(values.Get(i), args[3])
		if err != nil {
			return err
		}
		m[key] = value
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, m)
}

func field(of, name ref.Val) (value, err ref.Val) {
	m, ok := of.(traits.Mapper)
	if !ok {
		return nil, types.NewErr("listObjToMap: an element is not an object")
	}
	v, ok := m.Find(name)
	if !ok {
		return nil, types.NewErr("listObjToMap: no such key: %v", name)
	}
	return v, nil
}

// FixedNow is the time for policies if no time is set.
func FixedNow() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// decodeCertificate is JMESPath's x509_decode, with the exponent as an integer.
func decodeCertificate(text string) ref.Val {
	tree, err := jmespath.Certificate(text)
	if err != nil {
		return types.NewErr("%s", err)
	}
	key := tree["PublicKey"].(map[string]any)
	key["E"] = int64(key["E"].(float64))
	return Frozen(tree)
}

// defaultPattern is the pattern of random() without an argument.
const defaultPattern = "[0-9a-z]{8}"

const maxRandom = 4 << 10 // bytes

// randomString returns a string that a regular expression matches. It is always
// the same one, and results that depend on it have an assumption.
func randomString(pattern string) ref.Val {
	switch text, err := jmespath.Example(pattern); {
	case err != nil:
		return types.NewErr("invalid regular expression")
	case len(text) > maxRandom:
		return types.NewErr("a random string of more than %d bytes refused", maxRandom)
	default:
		return types.String(text)
	}
}
