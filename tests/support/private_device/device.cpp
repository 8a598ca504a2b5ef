// A device of torch's PrivateUse1 type in ordinary memory, with the vices of real devices.
//
// Every operator without a kernel here runs as the CPU's, in this device's memory.
// Vices are named in the variable STAND_IN_VICES, separated by blanks: `exp=wrong` for the operator
// aten::exp in all its forms, `lost-cast` for the whole device. Adapter 0 doubles every result:
// whoever does not ask which adapter is meant (number 1) gets wrong numbers.

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kAdapters = 2;
thread_local c10::DeviceIndex current = 0;
bool removed = false;
int64_t calls = 0;

const std::map<std::string, std::set<std::string>>& vices() {
  static const auto all = [] {
    std::map<std::string, std::set<std::string>> found;
    const char* text = std::getenv("STAND_IN_VICES");
    std::istringstream words(text ? text : "");
    for (std::string word; words >> word;) {
      const auto split = word.find('=');
      const bool whole = split == std::string::npos;
      found[whole ? "" : word.substr(0, split)].insert(whole ? word : word.substr(split + 1));
    }
    return found;
  }();
  return all;
}

bool has(const std::string& name, const std::string& vice) {
  const auto found = vices().find(name);
  return found != vices().end() && found->second.count(vice) > 0;
}

// Memory and devices.

struct Memory final : public c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? c10::alloc_cpu(bytes) : nullptr;
    return {data, data, &c10::free_cpu, c10::Device(kDevice, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
Memory memory;
REGISTER_ALLOCATOR(kDevice, &memory)

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    uncheckedSetDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kDevice, current}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return kAdapters; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// What torch asks before it runs autograd on a device. Without `override`: torch 2.4.1 knows fewer.
struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
  c10::DeviceIndex deviceCount() const { return kAdapters; }
  c10::DeviceIndex getCurrentDevice() const { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const { current = index; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const {
    return std::exchange(current, index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const {
    return std::exchange(current, index);
  }
};
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

// Tensors of this device as tensors of the CPU: the memory, strides and offset are the same, and
// tensors that share memory do so there, too.
class Hosts {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) return tensor;
    auto* impl = tensor.storage().unsafeGetStorageImpl();
    auto found = storages_.find(impl);
    if (found == storages_.end()) {
      void* data = impl->mutable_data();
      auto same = c10::Storage(
          c10::Storage::use_byte_size_t(), impl->nbytes(), c10::DataPtr(data, c10::kCPU),
          c10::GetCPUAllocator(), /*resizable=*/true);
      found = storages_.emplace(impl, std::move(same)).first;
    }
    auto result = at::empty({0}, tensor.options().device(at::kCPU));
    result.unsafeGetTensorImpl()->set_storage_keep_dtype(found->second);
    result.unsafeGetTensorImpl()->set_sizes_and_strides(
        tensor.sizes(), tensor.strides(), tensor.storage_offset());
    result._set_conj(tensor.is_conj());
    result._set_neg(tensor.is_neg());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      result.unsafeGetTensorImpl()->set_wrapped_number(true);
    return result;
  }

 private:
  std::map<c10::StorageImpl*, c10::Storage> storages_;
};

at::Tensor host(const at::Tensor& tensor) { return Hosts().of(tensor); }

// A copy of the CPU's tensor on the device, with the same strides.
at::Tensor on_device(const at::Tensor& numbers, c10::Device device) {
  if (!numbers.defined()) return numbers;
  auto result = at::empty_strided(
      numbers.sizes(), numbers.strides(), numbers.options().device(device));
  host(result).copy_(numbers);
  return result;
}

// What the device refuses, before and instead of computing.

void misbehave(const std::string& name, const torch::jit::Stack& stack, size_t inputs) {
  TORCH_CHECK(!removed, "The GPU device instance has been suspended (0x887A0005)");
  if (has(name, "crash")) std::raise(SIGSEGV);
  if (has(name, "abort")) std::abort();
  while (has(name, "hang")) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (has(name, "removed")) removed = true;
  TORCH_CHECK(!removed, "The GPU device instance has been removed (0x887A0005)");
  TORCH_CHECK(!has(name, "raises"), "Unknown error -2147024809");
  if (has(name, "falls-back"))
    TORCH_WARN(
        "The operator 'aten::", name, "' is not currently supported on the DML backend and will ",
        "fall back to run on the CPU. This may have performance implications.");
  if (!has("", "no-float64")) return;
  for (size_t i = stack.size() - inputs; i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const auto& given = stack[i].toTensor();  // a Python number arrives as a double, too
    TORCH_CHECK(
        given.scalar_type() != at::kDouble || given.unsafeGetTensorImpl()->is_wrapped_number(),
        "The GPU device does not support Double (Float64) operations!");
  }
}

// What becomes of one result.
void spoil(const std::string& name, const at::Tensor& result) {
  if (!result.defined() || result.device().type() != kDevice || result.numel() == 0) return;
  auto numbers = host(result);
  if (result.device().index() == 0 && result.is_floating_point()) numbers.mul_(2.0);
  if (has(name, "int-as-float32") && at::isIntegralType(result.scalar_type(), false))
    numbers.copy_(numbers.to(at::kFloat));
  if (!result.is_floating_point()) return;
  if (has(name, "wrong")) numbers.mul_(1.01);
  if (has(name, "random")) numbers.mul_(1.0 + 0.01 * static_cast<double>(++calls % 7));
  if (has(name, "half")) numbers.copy_(numbers.to(at::kHalf));
  if (has(name, "no-nan")) numbers.nan_to_num_(0.0, INFINITY, -INFINITY);
  if (has(name, "nan")) numbers.flatten()[0].fill_(NAN);
  if (has(name, "unwritten"))
    (numbers.dim() ? numbers.select(0, numbers.size(0) - 1) : numbers).zero_();
}

// What a kernel of the CPU made of a tensor of the device (`from`, as `numbers`): its shape may
// have changed.
void take_over(const at::Tensor& from, const at::Tensor& numbers) {
  const bool same = numbers.sizes().equals(from.sizes()) &&
      numbers.strides().equals(from.strides()) &&
      (numbers.numel() == 0 || numbers.const_data_ptr() == from.const_data_ptr());
  if (same) return;
  from.resize_(numbers.sizes());
  from.unsafeGetTensorImpl()->set_sizes_and_strides(numbers.sizes(), numbers.strides());
  host(from).copy_(numbers);
}

// Every other operator: the CPU's kernel, in this device's memory. at::native::cpu_fallback copies
// instead, by which some operators lose their results: those that write to arguments without saying
// so (native_batch_norm), and those that remember whether an argument was contiguous (the gradient
// of det).
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), stack_(stack) {}

  void run() {
    const auto inputs = op_.schema().arguments().size(), outputs = op_.schema().returns().size();
    for (size_t i = stack_->size() - inputs; i < stack_->size(); ++i) enter((*stack_)[i]);
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    for (const auto& [from, numbers] : given_) take_over(from, numbers);
    if (!device_.has_value()) return;
    for (size_t i = stack_->size() - outputs; i < stack_->size(); ++i) leave((*stack_)[i]);
  }

 private:
  at::Tensor host_of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) return tensor;
    if (!device_.has_value()) device_ = tensor.device();
    const auto numbers = hosts_.of(tensor);
    given_.emplace_back(tensor, numbers);
    return numbers;
  }

  void enter(c10::IValue& value) {
    if (value.isTensor()) {
      value = host_of(value.toTensor());
    } else if (value.isTensorList()) {
      auto tensors = value.toTensorVector();
      for (auto& tensor : tensors) tensor = host_of(tensor);
      value = c10::List<at::Tensor>(tensors);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec())
        tensors.push_back(tensor.has_value() ? std::optional(host_of(*tensor)) : tensor);
      value = tensors;
    } else if (value.isDevice() && value.toDevice().type() == kDevice) {
      const auto wanted = value.toDevice();
      device_ = c10::Device(kDevice, wanted.has_index() ? wanted.index() : current);
      value = c10::Device(c10::kCPU);
    }
  }

  // What the CPU's view is of its tensor, of `from`; the dtype may be another (view_as_real).
  static at::Tensor view(const at::Tensor& from, const at::Tensor& numbers) {
    auto keys = from.key_set().remove(c10::DispatchKey::Conjugate);
    auto result = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(from.storage()),
        keys.remove(c10::DispatchKey::Negative), numbers.dtype());
    result.unsafeGetTensorImpl()->set_sizes_and_strides(
        numbers.sizes(), numbers.strides(), numbers.storage_offset());
    result._set_conj(numbers.is_conj());
    result._set_neg(numbers.is_neg());
    return result;
  }

  at::Tensor device_of(const at::Tensor& numbers) const {
    if (!numbers.defined()) return numbers;
    for (const auto& [from, same] : given_)
      if (same.is_same(numbers)) return from;
    for (const auto& [from, same] : given_)  // a view
      if (numbers.storage().unsafeGetStorageImpl() == same.storage().unsafeGetStorageImpl())
        return view(from, numbers);
    return on_device(numbers, *device_);
  }

  void leave(c10::IValue& value) const {
    if (value.isTensor()) {
      value = device_of(value.toTensor());
    } else if (value.isTensorList()) {
      auto tensors = value.toTensorVector();
      for (auto& tensor : tensors) tensor = device_of(tensor);
      value = c10::List<at::Tensor>(tensors);
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  Hosts hosts_;
  std::vector<std::pair<at::Tensor, at::Tensor>> given_;
  std::optional<c10::Device> device_;
};

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto name = op.schema().name().substr(op.schema().name().find("::") + 2);
  if (name.back() == '_') name.pop_back();
  const auto inputs = op.schema().arguments().size(), outputs = op.schema().returns().size();
  const auto first = stack->size() - inputs;
  misbehave(name, *stack, inputs);
  at::Tensor written;
  for (size_t i = 0; i < inputs; ++i) {
    auto& value = (*stack)[first + i];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    if (has(name, "lost-write") && i == 0 && !value.toTensor().is_contiguous()) {
      const auto same = value;
      torch::jit::drop(*stack, inputs);
      stack->push_back(same);
      return;
    }
    const bool is_out = op.schema().arguments()[i].is_out();
    if (is_out && has(name, "ignores-out")) value = value.toTensor().clone();
    if (i == 0 && has(name, "changes-input")) written = value.toTensor();
  }
  Call(op, stack).run();
  for (size_t i = stack->size() - outputs; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor()) spoil(name, value.toTensor());
    if (value.isTensor() && has(name, "widens"))
      value = on_device(host(value.toTensor()).to(at::kDouble), value.toTensor().device());
  }
  if (written.defined() && written.numel()) host(written).add_(1);
}

// The few operators that every device must have itself.

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current)));
  return at::detail::empty_generic(
      size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current)));
  return at::detail::empty_strided_generic(
      size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  TORCH_CHECK(!removed, "The GPU device instance has been suspended (0x887A0005)");
  host(to).copy_(host(self));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) { return host(self).item(); }

// A move to the CPU that casts as well moves only, where the device has that vice.
at::Tensor to_copy(
    const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinned, bool non_blocking,
    std::optional<at::MemoryFormat> format) {
  if (has("", "lost-cast") && device.has_value() && device->is_cpu()) dtype = self.scalar_type();
  return at::native::_to_copy(self, dtype, layout, device, pinned, non_blocking, format);
}

// torch calls these two for convolutions on a device that it does not know.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups) {
  const auto own = bias.has_value() ? host(*bias) : at::Tensor();
  auto result = at::convolution(
      host(input), host(weight), own, stride, padding, dilation, transposed, output_padding,
      groups).to(input.device());
  spoil("convolution", result);
  return result;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  const std::vector<int64_t> bias{transposed ? weight.size(1) * groups : weight.size(0)};
  auto [a, b, c] = at::convolution_backward(
      host(gradient), host(input), host(weight), bias, stride, padding, dilation, transposed,
      output_padding, groups, wanted);
  const auto back = [&](const at::Tensor& t) { return t.defined() ? t.to(input.device()) : t; };
  return {back(a), back(b), back(c)};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

// A copy takes the bits of conjugation and negation as they are: torch would make a copy first.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_to_copy", to_copy);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  // torch multiplies by the power of two on devices that it does not know, and that overflows; where
  // it does so on the CPU, too, the operator has no kernels, and its gradient would be lost by one
  const auto ldexp = c10::Dispatcher::singleton().findSchema({"aten::ldexp", "Tensor"});
  if (ldexp && ldexp->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
    m.impl("ldexp.Tensor", torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", [](const at::Tensor& self, at::IntArrayRef size,
      std::optional<at::MemoryFormat> format) -> const at::Tensor& {
    const c10::DeviceGuard guard(self.device());  // memory is got from the current device
    return at::native::resize_(self, size, format);
  });
  m.impl("set_.source_Storage_storage_offset", [](at::Tensor& self, at::Storage source,
      int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) -> at::Tensor& {
    return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
  });
  m.impl("set_.source_Storage", [](at::Tensor& self, at::Storage source) -> at::Tensor& {
    const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
    return at::native::set_storage_cpu_(self, std::move(source), 0, {elements}, {});
  });
}

}  // namespace
