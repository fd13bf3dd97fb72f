package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// An Encoder writes values in sequence in a compact form: a repeated string is
// written as a number. The zero Encoder is ready to use.
type Encoder struct {
	data  []byte
	known map[string]uint64
	whole bool // repeated strings are written in full, which is faster
	err   error
}

// Data returns the encoded bytes, or the first error.
func (e *Encoder) Data() ([]byte, error) { return e.data, e.err }

// Uint writes a number.
func (e *Encoder) Uint(n uint64) { e.data = binary.AppendUvarint(e.data, n) }

// String writes a string.
func (e *Encoder) String(s string) {
	if !e.whole {
		if n, ok := e.known[s]; ok {
			e.Uint(n << 1)
			return
		}
		if e.known == nil {
			e.known = make(map[string]uint64)
		}
		e.known[s] = uint64(len(e.known))
	}
	e.Uint(uint64(len(s))<<1 | 1)
	e.data = append(e.data, s...)
}

// Strings writes a list of strings. A nil list stays nil.
func (e *Encoder) Strings(list []string) {
	e.length(len(list), list == nil)
	for _, s := range list {
		e.String(s)
	}
}

// Bool writes a truth value.
func (e *Encoder) Bool(b bool) {
	if b {
		e.Uint(1)
	} else {
		e.Uint(0)
	}
}

// length writes the length of a value that may be nil.
func (e *Encoder) length(n int, absent bool) {
	if absent {
		e.Uint(0)
	} else {
		e.Uint(uint64(n) + 1)
	}
}

// Tags for the types of values in rendered objects.
const (
	tagNil = iota
	tagFalse
	tagTrue
	tagInt
	tagFloat
	tagString
	tagList
	tagMap
)

// Value writes a value of a rendered object. Keys are sorted, so equal values give equal bytes at
// the same position.
func (e *Encoder) Value(v any) {
	switch v := v.(type) {
	case nil:
		e.data = append(e.data, tagNil)
	case bool:
		e.data = append(e.data, tagFalse)
		if v {
			e.data[len(e.data)-1] = tagTrue
		}
	case int64:
		e.data = binary.AppendVarint(append(e.data, tagInt), v)
	case float64:
		e.data = binary.LittleEndian.AppendUint64(append(e.data, tagFloat), math.Float64bits(v))
	case string:
		e.data = append(e.data, tagString)
		e.String(v)
	case []any:
		e.data = append(e.data, tagList)
		e.length(len(v), v == nil)
		for _, item := range v {
			e.Value(item)
		}
	case map[string]any:
		e.data = append(e.data, tagMap)
		e.length(len(v), v == nil)
		e.entries(v)
	default:
		e.err = fmt.Errorf("a value of type %T", v)
	}
}

func (e *Encoder) entries(m map[string]any) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		e.String(k)
		e.Value(m[k])
	}
}

// Plain writes structs of exported fields, pointers, lists, maps with string
// keys, and scalars. Zero fields of a struct take no space.
func (e *Encoder) Plain(v any) { e.plain(reflect.ValueOf(v)) }

func (e *Encoder) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		e.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.data = binary.AppendVarint(e.data, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.Uint(v.Uint())
	case reflect.Float64:
		e.data = binary.LittleEndian.AppendUint64(e.data, math.Float64bits(v.Float()))
	case reflect.String:
		e.String(v.String())
	case reflect.Pointer:
		e.Bool(!v.IsNil())
		if !v.IsNil() {
			e.plain(v.Elem())
		}
	case reflect.Slice:
		e.length(v.Len(), v.IsNil())
		for i := range v.Len() {
			e.plain(v.Index(i))
		}
	case reflect.Map:
		e.plainMap(v)
	case reflect.Struct:
		e.fields(v)
	default:
		e.err = fmt.Errorf("data of type %s", v.Type())
	}
}

// plainMap writes a map with string keys, sorted.
func (e *Encoder) plainMap(v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String {
		e.err = fmt.Errorf("data of type %s", v.Type())
		return
	}
	e.length(v.Len(), v.IsNil())
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		e.String(k.String())
		e.plain(v.MapIndex(k))
	}
}

func (e *Encoder) fields(v reflect.Value) {
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			e.err = fmt.Errorf("a field of %s is not exported", v.Type())
			return
		}
		if f := v.Field(i); !f.IsZero() {
			e.Uint(uint64(i) + 1)
			e.plain(f)
		}
	}
	e.Uint(0)
}

// A Decoder reads an Encoder's output in the same order. For malformed input
// all values are zero, and Err returns an error.
type Decoder struct {
	data   string
	known  []string
	broken bool
	depth  int
}

// NewDecoder returns a Decoder for data. The caller must not change data, because decoded strings
// share its memory.
func NewDecoder(data []byte) *Decoder {
	return &Decoder{data: unsafe.String(unsafe.SliceData(data), len(data))}
}

var errBroken = errors.New("not what was written")

// Err returns an error if the input read so far was malformed.
func (d *Decoder) Err() error {
	if d.broken {
		return errBroken
	}
	return nil
}

// End returns Err, or an error if not everything has been read.
func (d *Decoder) End() error {
	if len(d.data) > 0 {
		d.broken = true
	}
	return d.Err()
}

func (d *Decoder) fail() {
	d.broken, d.data = true, ""
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	var n uint64
	for i := 0; i < len(d.data) && i < binary.MaxVarintLen64; i++ {
		b := d.data[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			d.data = d.data[i+1:]
			return n
		}
	}
	d.fail()
	return 0
}

func (d *Decoder) int() int64 {
	n := d.Uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *Decoder) float() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(d.take(8))))
}

// take reads n bytes. If there are fewer, it fails and returns zeros.
func (d *Decoder) take(n uint64) string {
	if n > uint64(len(d.data)) {
		d.fail()
		return string(make([]byte, min(n, 8)))
	}
	s := d.data[:n]
	d.data = d.data[n:]
	return s
}

// String reads a string.
func (d *Decoder) String() string {
	n := d.Uint()
	if n&1 == 0 {
		if n>>1 >= uint64(len(d.known)) {
			d.fail()
			return ""
		}
		return d.known[n>>1]
	}
	if n>>1 > uint64(len(d.data)) {
		d.fail()
		return ""
	}
	s := d.take(n >> 1)
	d.known = append(d.known, s)
	return s
}

// Strings reads a list of strings.
func (d *Decoder) Strings() []string {
	n, absent := d.length()
	if absent {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.String())
	}
	return list
}

// Bool reads a truth value.
func (d *Decoder) Bool() bool { return d.Uint() == 1 }

// length reads the length of a value that may be nil. It fails if the length exceeds the
// number of remaining bytes.
func (d *Decoder) length() (n int, absent bool) {
	u := d.Uint()
	if u == 0 {
		return 0, true
	}
	if u-1 > uint64(len(d.data)) {
		d.fail()
		return 0, true
	}
	return int(u - 1), false
}

const maxDepth = 10_000

// Value reads a value.
func (d *Decoder) Value() any {
	if d.depth++; d.depth > maxDepth {
		d.fail()
	}
	defer func() { d.depth-- }()
	tag := d.take(1)
	switch tag[0] {
	case tagNil:
		return nil
	case tagFalse, tagTrue:
		return tag[0] == tagTrue
	case tagInt:
		return d.int()
	case tagFloat:
		return d.float()
	case tagString:
		return d.String()
	case tagList:
		return d.list()
	case tagMap:
		return d.entries()
	}
	d.fail()
	return nil
}

func (d *Decoder) list() []any {
	n, absent := d.length()
	if absent {
		return nil
	}
	list := make([]any, n)
	for i := range list {
		list[i] = d.Value()
	}
	return list
}

func (d *Decoder) entries() map[string]any {
	n, absent := d.length()
	if absent {
		return nil
	}
	m := make(map[string]any, n)
	for range n {
		key := d.String()
		m[key] = d.Value()
	}
	return m
}

// Plain reads a value written by [Encoder.Plain] into the variable that v
// points to.
func (d *Decoder) Plain(v any) { d.plain(reflect.ValueOf(v).Elem()) }

func (d *Decoder) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(d.int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(d.Uint())
	case reflect.Float64:
		v.SetFloat(d.float())
	case reflect.String:
		v.SetString(d.String())
	case reflect.Pointer:
		if d.Bool() {
			v.Set(reflect.New(v.Type().Elem()))
			d.plain(v.Elem())
		}
	case reflect.Slice:
		d.slice(v)
	case reflect.Map:
		d.plainMap(v)
	case reflect.Struct:
		d.fields(v)
	default:
		d.fail()
	}
}

func (d *Decoder) slice(v reflect.Value) {
	n, absent := d.length()
	if absent {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		d.plain(v.Index(i))
	}
}

func (d *Decoder) plainMap(v reflect.Value) {
	n, absent := d.length()
	if absent || v.Type().Key().Kind() != reflect.String {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), n))
	for range n {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(d.String())
		value := reflect.New(v.Type().Elem()).Elem()
		d.plain(value)
		v.SetMapIndex(key, value)
	}
}

func (d *Decoder) fields(v reflect.Value) {
	for n := d.Uint(); n > 0 && !d.broken; n = d.Uint() {
		if n > uint64(v.NumField()) {
			d.fail()
			return
		}
		d.plain(v.Field(int(n) - 1))
	}
}
