// A device of torch's PrivateUse1 type in ordinary memory, with the vices of real devices.
//
// Every operator without a kernel here runs on the CPU and comes back (at::native::cpu_fallback).
// Vices are named in the variable STAND_IN_VICES, separated by blanks: `exp=wrong` for the operator
// aten::exp in all its forms, `lost-cast` for the whole device. Adapter 0 doubles every result:
// whoever does not ask which adapter is meant (number 1) gets wrong numbers.

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

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

// The numbers of a tensor of this device as a tensor of the CPU; the memory is the same.
at::Tensor host(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kDevice) return tensor;
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
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
  for (size_t i = stack.size() - inputs; i < stack.size(); ++i)
    TORCH_CHECK(
        !stack[i].isTensor() || !stack[i].toTensor().defined() ||
            stack[i].toTensor().scalar_type() != at::kDouble,
        "The GPU device does not support Double (Float64) operations!");
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
  at::native::cpu_fallback(op, stack);
  for (size_t i = stack->size() - outputs; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor()) spoil(name, value.toTensor());
    if (value.isTensor() && has(name, "widens"))
      value = host(value.toTensor()).to(at::kDouble).to(value.toTensor().device());
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_to_copy", to_copy);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", at::native::resize_);
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
