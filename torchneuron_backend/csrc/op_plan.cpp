#include "op_plan.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

namespace neuron {
namespace {

using Type = ArgumentPlan::Type;

// Host tensors of any rank that are part of an operator's contract; everywhere else only numbers (0-dim) may be.
// What a custom operator takes is for its own kernel to check.
bool may_be_on_host(const std::string& op, const std::string& argument) {
  const auto starts_with = [&](const char* prefix) { return op.rfind(prefix, 0) == 0; };
  if (!starts_with("aten::")) {
    return true;
  }
  if (argument == "indices") {
    return starts_with("aten::index.") || starts_with("aten::index_put") || starts_with("aten::_index_put_impl_") ||
        starts_with("aten::_unsafe_index") || starts_with("aten::_unsafe_masked_index");
  }
  if (argument == "lengths" || argument == "batch_sizes") {
    return starts_with("aten::_pack_padded");
  }
  return argument == "scalars" && starts_with("aten::_foreach");
}

// Batch norm updates its running statistics although its schema does not say so.
bool written_in_secret(const std::string& op, const std::string& argument) {
  return op.rfind("aten::native_batch_norm", 0) == 0 && (argument == "running_mean" || argument == "running_var") &&
      op.find("backward") == std::string::npos;
}

bool lies_in_order(const c10::IValue& value) {
  return !value.isTensor() || !value.toTensor().defined() ||
      (value.toTensor().is_contiguous() && value.toTensor().storage_offset() == 0);
}

std::optional<Type> type_of(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  if (auto list = type->cast<c10::ListType>()) {
    auto element = list->getElementType();
    if (auto optional = element->cast<c10::OptionalType>()) {
      element = optional->getElementType();
    }
    return element->kind() == c10::TypeKind::TensorType ? std::optional(Type::TensorList) : std::nullopt;
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Type::Tensor;
    case c10::TypeKind::DeviceObjType:
      return Type::Device;
    case c10::TypeKind::GeneratorType:
      return Type::Generator;
    default:
      return std::nullopt;
  }
}

struct Plans {
  std::shared_mutex mutex;
  std::unordered_map<c10::OperatorName, std::unique_ptr<OpPlan>> by_name;
};

Plans& plans() {
  static auto* instance = new Plans();
  return *instance;
}

}  // namespace

OpPlan::OpPlan(const c10::OperatorHandle& op)
    : schema(&op.schema()), record(op_record(toString(op.operator_name()))), argument_count(schema->arguments().size()) {
  const std::string& name = record.name;
  bool has_generator = false;
  for (size_t i = 0; i < argument_count; ++i) {
    const auto& argument = schema->arguments()[i];
    if (const auto type = type_of(argument)) {
      const bool written = (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
          written_in_secret(name, argument.name());
      arguments.push_back({i, *type, written, may_be_on_host(name, argument.name()), argument.name()});
      has_generator |= *type == Type::Generator;
    }
  }
  for (const auto& result : schema->returns()) {
    ResultPlan plan;
    if (const auto* alias = result.alias_info()) {
      plan.view = !alias->isWrite();
      for (size_t i = 0; i < arguments.size() && alias->isWrite(); ++i) {
        const auto* other = schema->arguments()[arguments[i].index].alias_info();
        if (other != nullptr && *other == *alias) {
          plan.argument = static_cast<int>(i);
        }
      }
    }
    returns_view |= plan.view;
    results.push_back(plan);
  }
  draws = has_generator || op.hasTag(at::Tag::nondeterministic_seeded);
  shape_depends_on_data = op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  addresses_memory = std::ranges::any_of(
      schema->arguments(), [](const c10::Argument& argument) { return argument.name() == "storage_offset"; });
  indexes = name == "aten::index.Tensor" || name == "aten::_unsafe_index.Tensor";
  draws_from_default = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded);
}

bool OpPlan::is_native(c10::ScalarType dtype, const torch::jit::Stack& stack) const {
  // A program sees elements in order, not the memory they lie in.
  if (addresses_memory && !lies_in_order(stack[stack.size() - argument_count])) {
    return false;
  }
  if (is_native(dtype)) {
    return true;
  }
  for (size_t i = 0; i < kConditions; ++i) {
    const bool applies = (conditional_dtypes[i].load() >> static_cast<int>(dtype)) & 1;
    if (applies && holds(static_cast<Condition>(i), *this, stack)) {
      return true;
    }
  }
  return false;
}

OpPlan& plan_for(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  {
    std::shared_lock<std::shared_mutex> lock(plans().mutex);
    auto found = plans().by_name.find(name);
    if (found != plans().by_name.end() && found->second->schema == &op.schema()) {
      return *found->second;
    }
  }
  auto made = std::make_unique<OpPlan>(op);
  std::unique_lock<std::shared_mutex> lock(plans().mutex);
  auto& slot = plans().by_name[name];
  if (slot != nullptr && slot->schema != &op.schema()) {
    slot.release();  // an operator registered anew: its old plan may be in use, so it is leaked
  }
  if (slot == nullptr) {
    slot = std::move(made);
  }
  return *slot;
}

}  // namespace neuron
