#include "lowerings.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "boxed.h"

namespace neuron {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;
using c10::OperatorName;

// Composite operators over allocation and copying, which the device has of its own; as boxed kernels they would
// make their result on the wrong side of the border.
const std::unordered_set<std::string>& composed_of_own_kernels() {
  static const std::unordered_set<std::string> names{
      "aten::copy_",          "aten::copy",         "aten::_to_copy",   "aten::_pin_memory", "aten::resize_as_",
      "aten::record_stream",  "aten::empty_like",   "aten::new_empty",  "aten::detach_",     "aten::new_empty_strided",
      "aten::empty_permuted", "aten::is_same_size", "aten::lift_fresh_copy",
      "aten::_unsafe_view"};  // shares memory, although its schema does not say so
  return names;
}

bool has_kernel(const OperatorHandle& op, DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

// Autograd sees through such an operator; a kernel of our own would hide its derivative.
bool derives_through_its_parts(const OperatorHandle& op) {
  return has_kernel(op, DispatchKey::CompositeImplicitAutograd) && !has_kernel(op, DispatchKey::Autograd);
}

// Whether a boxed kernel may be put on this operator.
bool can_be_boxed(const OperatorHandle& op, const OpPlan& plan) {
  return !has_kernel(op, DispatchKey::PrivateUse1) &&
      !derives_through_its_parts(op) && !plan.returns_view &&
      !op.hasTag(at::Tag::inplace_view) && !composed_of_own_kernels().contains(op.operator_name().name) &&
      op.hasComputedKernelForDispatchKey(DispatchKey::CPU);
}

// Operators that get a boxed kernel whether or not they are native for some dtype, so that a fallback carries the
// name the program called. Structured operators would otherwise fall back in their out= form, after allocating a
// result that the fallback copies to the host and back for nothing; convolution in a form with no host kernel.
bool is_always_boxed(const OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return has_kernel(op, DispatchKey::CompositeExplicitAutogradNonFunctional) || name == "aten::convolution" ||
      name == "aten::convolution_backward";
}

bool same_inputs(const c10::FunctionSchema& functional, const c10::FunctionSchema& variant) {
  const auto& wanted = functional.arguments();
  size_t next = 0;
  for (const auto& argument : variant.arguments()) {
    const bool is_out = argument.kwarg_only() && argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (is_out) {
      continue;
    }
    if (next == wanted.size() || wanted[next].name() != argument.name() || *wanted[next].type() != *argument.type()) {
      return false;
    }
    ++next;
  }
  return next == wanted.size();
}

// The base names that the functional form of an overload that writes to an argument may have; none for a functional
// overload. The forms in ATen/native/native_functions.yaml: add_ and add.out are add, normal_ is normal_functional.
std::vector<std::string> functional_bases(const OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  const auto& arguments = op.schema().arguments();
  const auto written = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  if (std::ranges::none_of(arguments, written)) {
    return {};
  }
  const bool in_place = written(arguments.front()) && name.back() == '_' && name[name.size() - 2] != '_';
  const std::string base = in_place ? name.substr(0, name.size() - 1) : name;
  return {base, base + "_functional"};
}

struct Dtypes {
  uint64_t native = 0;
  std::array<uint64_t, kConditions> conditional{};
};
using Table = std::unordered_map<OperatorName, Dtypes>;

// For each base name, its functional overloads that the table has.
std::unordered_map<std::string, std::vector<OperatorHandle>> functional_forms(const Table& table) {
  std::unordered_map<std::string, std::vector<OperatorHandle>> forms;
  for (const auto& [name, dtypes] : table) {
    if (const auto op = c10::Dispatcher::singleton().findSchema(name)) {
      forms[name.name].push_back(*op);
    }
  }
  return forms;
}

Table with_variants(Table table, const std::vector<OperatorName>& all_names) {
  const auto forms = functional_forms(table);
  for (const auto& name : all_names) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value() || table.contains(name)) {
      continue;
    }
    for (const auto& base : functional_bases(*op)) {
      const auto found = forms.find(base);
      if (found == forms.end()) {
        continue;
      }
      const auto form = std::ranges::find_if(
          found->second, [&](const auto& each) { return same_inputs(each.schema(), op->schema()); });
      if (form != found->second.end()) {
        table.emplace(name, table.at(form->operator_name()));
        break;
      }
    }
  }
  return table;
}

torch::Library& library_for(const std::string& ns) {
  // Leaked: a library that dies takes its kernels with it.
  static auto* libraries = new std::unordered_map<std::string, torch::Library*>();
  auto& slot = (*libraries)[ns];
  if (slot == nullptr) {
    slot = new torch::Library(torch::Library::IMPL, ns, DispatchKey::PrivateUse1, __FILE__, __LINE__);
  }
  return *slot;
}

void put_boxed_kernel(const OperatorHandle& op, OpPlan& plan) {
  const auto& name = op.operator_name();
  const auto ns = name.getNamespace();
  library_for(std::string(ns.value()))
      .impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(plan)));
}

OperatorName parse(const std::string& op) {
  const auto dot = op.find('.');
  return {op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)};
}

}  // namespace

size_t register_lowerings(const std::vector<std::pair<std::string, uint64_t>>& entries,
                          const std::vector<std::tuple<std::string, uint64_t, std::string>>& conditional) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto all_names = dispatcher.getAllOpNames();
  Table table;
  for (const auto& [name, dtypes] : entries) {
    table[parse(name)].native |= dtypes;
  }
  for (const auto& [name, dtypes, condition] : conditional) {
    const auto known = condition_named(condition);
    TORCH_CHECK(known.has_value(), "the lowering of ", name, " has the unknown condition '", condition, "'.");
    table[parse(name)].conditional[static_cast<size_t>(*known)] |= dtypes;
  }
  table = with_variants(std::move(table), all_names);
  size_t registered = 0;
  for (const auto& name : all_names) {
    const auto op = dispatcher.findSchema(name);
    const auto entry = table.find(name);
    if (!op.has_value() || (entry == table.end() && !is_always_boxed(*op))) {
      continue;
    }
    OpPlan& plan = plan_for(*op);
    const bool boxable = can_be_boxed(*op, plan);
    if (entry != table.end() && (boxable || has_kernel(*op, DispatchKey::PrivateUse1))) {
      plan.native_dtypes.store(entry->second.native);
      for (size_t i = 0; i < kConditions; ++i) {
        plan.conditional_dtypes[i].store(entry->second.conditional[i]);
      }
    }
    if (boxable) {
      plan.boxed = true;
      put_boxed_kernel(*op, plan);
      ++registered;
    }
  }
  return registered;
}

bool is_native(const std::string& op, int dtype) {
  const auto found = c10::Dispatcher::singleton().findSchema(parse(op));
  if (!found.has_value()) {
    return false;
  }
  const OpPlan& plan = plan_for(*found);
  const bool own_kernel = !plan.boxed && has_kernel(*found, DispatchKey::PrivateUse1);
  return own_kernel || plan.is_native(static_cast<c10::ScalarType>(dtype));
}

}  // namespace neuron
