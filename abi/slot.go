package abi

// Slot names a document that guest and host exchange. Input slots are below
// 16 and read-only, output slots are write-only.
type Slot int32

const (
	// SlotMeta is the request: [Meta].
	SlotMeta Slot = 0
	// SlotObject is the object as it is now.
	SlotObject Slot = 1
	// SlotOldObject is the object as it is stored.
	SlotOldObject Slot = 2
	// SlotOptions is CreateOptions, UpdateOptions, DeleteOptions or what
	// the op says.
	SlotOptions Slot = 3
	// SlotSettings is what the binding of this module says; absent when it
	// says nothing.
	SlotSettings Slot = 4
	// SlotParams is the parameter object of a policy binding.
	SlotParams Slot = 5
	// SlotNamespace is the Namespace object of the request.
	SlotNamespace Slot = 6
	// SlotTargetVersion is a JSON string, "group/version", of OpConvert.
	SlotTargetVersion Slot = 7

	// SlotResult takes a [Result] of at most [MaxResultBytes].
	SlotResult Slot = 16
	// SlotObjectOut takes the whole new object of at most
	// [MaxObjectBytes].
	SlotObjectOut Slot = 17
	// SlotPatch takes a JSON patch (RFC 6902) of SlotObject of at most
	// [MaxPatchBytes]. Of SlotPatch and SlotObjectOut only one may be
	// written in a call.
	SlotPatch Slot = 18
	// SlotManifest takes a [Manifest] of at most [MaxManifestBytes], in
	// weir_describe only.
	SlotManifest Slot = 19
)

// InputSlots is the number of input slots: they are 0 to InputSlots-1.
const InputSlots = 8

// String is the slot's name.
func (s Slot) String() string {
	switch s {
	case SlotMeta:
		return "meta"
	case SlotObject:
		return "object"
	case SlotOldObject:
		return "oldObject"
	case SlotOptions:
		return "options"
	case SlotSettings:
		return "settings"
	case SlotParams:
		return "params"
	case SlotNamespace:
		return "namespace"
	case SlotTargetVersion:
		return "targetVersion"
	case SlotResult:
		return "result"
	case SlotObjectOut:
		return "objectOut"
	case SlotPatch:
		return "patch"
	case SlotManifest:
		return "manifest"
	}
	return "unknown"
}

// Input tells whether s is an input slot.
func (s Slot) Input() bool { return s >= 0 && s < InputSlots }

// Output tells whether s is an output slot.
func (s Slot) Output() bool { return s >= SlotResult && s <= SlotManifest }

// Limit is the most bytes an output slot takes; 0 for any other slot.
func (s Slot) Limit() int {
	switch s {
	case SlotResult:
		return MaxResultBytes
	case SlotObjectOut:
		return MaxObjectBytes
	case SlotPatch:
		return MaxPatchBytes
	case SlotManifest:
		return MaxManifestBytes
	}
	return 0
}
