package cel

import (
	"math"
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// meter counts the cost of one evaluation as interpreter.CostTracker does, to the unit. It differs in its time alone: a
// CostTracker looks for the arguments of each step through all values that are still on its stack, to which each round
// of a comprehension adds some, so that its time is quadratic in the length of a list, and the cost that it counts does
// not bound it. Here each value knows the one below it that has the same id, and a look takes one step.
type meter struct {
	estimator library.CostEstimator
	limit     uint64
	cost      uint64
	// stack has the values of the steps that have been made and not yet used.
	stack []stackSlot
	// top is, by id, 1 + the index of the highest slot of that id; 0: there is none.
	top  []int32
	args []ref.Val // of the call whose cost is looked for
	// steps is how many slots have been pushed, dropped and looked at: what the meter's own time is proportional to.
	steps uint64
}

type stackSlot struct {
	val ref.Val
	id  int64
	// below is the value of top[id] before this one was pushed.
	below int32
}

// maxPooledSlots bounds the stack that is kept for another evaluation.
const maxPooledSlots = 4096

// reset forgets everything.
func (m *meter) reset() {
	m.truncate(0)
	m.cost, m.steps = 0, 0
	if cap(m.stack) > maxPooledSlots {
		m.stack = nil
	}
	clear(m.args[:cap(m.args)])
}

// push puts the value of a step on the stack, and stops an evaluation that has become too expensive.
func (m *meter) push(id int64, val ref.Val) {
	if int(id) >= len(m.top) {
		m.top = append(m.top, make([]int32, int(id)+1-len(m.top))...)
	}
	m.stack = append(m.stack, stackSlot{val: val, id: id, below: m.top[id]})
	m.top[id] = int32(len(m.stack))
	m.steps++
	if m.cost > m.limit {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: actual cost limit exceeded"})
	}
}

// find returns the index of the highest slot of an id, or -1.
func (m *meter) find(id int64) int {
	m.steps++
	if id < 0 || int(id) >= len(m.top) {
		return -1
	}
	return int(m.top[id]) - 1
}

// truncate drops the slots from n on.
func (m *meter) truncate(n int) {
	for i := len(m.stack) - 1; i >= n; i-- {
		s := &m.stack[i]
		m.top[s.id] = s.below
		s.val = nil
		m.steps++
	}
	m.stack = m.stack[:n]
}

// drop drops the highest slot of each id, in turn, and all above it.
func (m *meter) drop(ids ...int64) {
	for _, id := range ids {
		if i := m.find(id); i >= 0 {
			m.truncate(i)
		}
	}
}

// dropArgs drops the values of arguments and returns them, valid until it is called again; false where one is missing.
func (m *meter) dropArgs(args []interpreter.InterpretableV2) ([]ref.Val, bool) {
	m.args = slices.Grow(m.args[:0], len(args))[:len(args)]
	for n := len(args) - 1; n >= 0; n-- {
		i := m.find(args[n].ID())
		if i < 0 {
			return nil, false
		}
		m.args[n] = m.stack[i].val
		m.truncate(i)
	}
	return m.args, true
}

// observe accounts for one step.
func (m *meter) observe(w *watch, id int64, val ref.Val) {
	switch w.step {
	case stepFree:
	case stepSelect:
		m.drop(w.attribute.Attr().ID())
		m.cost += common.SelectAndIdentCost
	case stepConditional:
		b := w.plan.branches[w.attribute.Attr().ID()]
		m.drop(b.falsy, b.truthy, b.condition)
	case stepTerms:
		m.drop(w.terms...)
	case stepQualifier:
		m.cost++
	case stepCall:
		if args, ok := m.dropArgs(w.call.Args()); ok {
			m.cost += m.callCost(w.call.Function(), w.call.OverloadID(), args, val)
		}
	case stepConstructor:
		m.dropArgs(w.constructor.InitVals())
		switch w.constructor.Type() {
		case types.ListType:
			m.cost += common.ListCreateBaseCost
		case types.MapType:
			m.cost += common.MapCreateBaseCost
		default:
			m.cost += common.StructCreateBaseCost
		}
	}
	if w.presence { // has() costs nothing
		m.cost -= common.SelectAndIdentCost
	}
	m.push(id, val)
}

// callCost is the cost of a call.
func (m *meter) callCost(function, overload string, args []ref.Val, result ref.Val) uint64 {
	if cost, ok := listCallCost(overload, args, result); ok {
		return cost
	}
	if cost := m.estimator.CallCost(function, overload, args, result); cost != nil {
		return *cost
	}
	text := func(size uint64) uint64 { return uint64(math.Ceil(float64(size) * common.StringTraversalCostFactor)) }
	switch overload {
	case overloads.StartsWithString, overloads.EndsWithString:
		return text(actualSize(args[1]))
	case overloads.StringToBytes, overloads.BytesToString, overloads.ExtQuoteString, overloads.ExtFormatString:
		return text(actualSize(args[0]))
	case overloads.InList:
		return actualSize(args[1])
	case overloads.LessString, overloads.GreaterString, overloads.LessEqualsString, overloads.GreaterEqualsString,
		overloads.LessBytes, overloads.GreaterBytes, overloads.LessEqualsBytes, overloads.GreaterEqualsBytes,
		overloads.Equals, overloads.NotEquals:
		return text(min(actualSize(args[0]), actualSize(args[1])))
	case overloads.AddString, overloads.AddBytes:
		return text(actualSize(args[0]) + actualSize(args[1]))
	case overloads.Matches, overloads.MatchesString:
		// An empty text is as if it had one character: the expression is expensive all the same.
		words := uint64(math.Ceil((1.0 + float64(actualSize(args[0]))) * common.StringTraversalCostFactor))
		return words * uint64(math.Ceil(float64(actualSize(args[1]))*common.RegexStringLengthCostFactor))
	case overloads.ContainsString:
		return text(actualSize(args[0])) * text(actualSize(args[1]))
	}
	return 1
}

// listCallCost is the cost of the calls for which cel-go's ext.Lists, from version 3 on, and ext.Sets have trackers of
// their own. They keep them to themselves. A test compares them.
func listCallCost(overload string, args []ref.Val, result ref.Val) (uint64, bool) {
	switch overload {
	case "list_slice", "lists_range", "list_reverse":
		return listCost(1, actualSize(result)), true
	case "list_flatten":
		return listCost(1, actualSize(args[0])), true
	case "list_flatten_int":
		depth, ok := args[1].(types.Int)
		if !ok {
			return 0, false
		}
		return listCost(float64(depth), actualSize(args[0])), true
	case "list_distinct", "list_int_sort", "list_uint_sort", "list_double_sort", "list_bool_sort",
		"list_google.protobuf.Duration_sort", "list_google.protobuf.Timestamp_sort", "list_string_sort", "list_bytes_sort":
		return selfCompareCost(args[0])
	case "list_int_sortByAssociatedKeys", "list_uint_sortByAssociatedKeys", "list_double_sortByAssociatedKeys",
		"list_bool_sortByAssociatedKeys", "list_google.protobuf.Duration_sortByAssociatedKeys",
		"list_google.protobuf.Timestamp_sortByAssociatedKeys", "list_string_sortByAssociatedKeys", "list_bytes_sortByAssociatedKeys":
		return selfCompareCost(args[1])
	case "list_sets_contains_list", "list_sets_intersects_list":
		return setsCost(1, args), true
	case "list_sets_equivalent_list":
		return setsCost(2, args), true
	}
	return 0, false
}

// listCost is that of a call that makes a list.
func listCost(factor float64, size uint64) uint64 {
	if factor < 0 {
		factor = 1
	}
	return saturated(uint64(float64(size)*factor), 1+common.ListCreateBaseCost)
}

// selfCompareCost is that of comparing all elements of a list with all.
func selfCompareCost(v ref.Val) (uint64, bool) {
	list, ok := v.(traits.Lister)
	if !ok {
		return 0, false
	}
	n, factor := actualSize(list), 2.0
	if n == 0 {
		return listCost(factor, 0), true
	}
	switch list.Get(types.IntZero).(type) {
	case types.String, types.Bytes:
		factor += common.StringTraversalCostFactor
	}
	size := n * n
	if n > math.MaxUint32 {
		size = math.MaxUint64
	}
	return listCost(factor, size), true
}

func setsCost(factor float64, args []ref.Val) uint64 {
	return saturated(1, uint64(float64(actualSize(args[0])*actualSize(args[1]))*factor))
}

func saturated(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// actualSize is the size that a value has in costs.
func actualSize(v ref.Val) uint64 {
	if sized, ok := v.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	if opt, ok := v.(*types.Optional); ok && opt.HasValue() {
		return actualSize(opt.GetValue())
	}
	return 1
}
