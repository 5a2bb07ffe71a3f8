// Loads every method of .pte files with ExecuTorch's own runtime, and says what it asked its allocators for.
//
//     measure POOLS FILE...
//
// POOLS are sizes of the pool for temporary memory, with commas between them; "none" for a runtime without
// one. A line of JSON for each file, method and pool. Kernels and backends are stand-ins that do nothing:
// nothing runs. Without a file it prints the sizes and alignments of the structures that the runtime
// allocates. Built with RUN_KERNELS, and linked with libraries of kernels and backends, it runs every method
// once, on zeros.

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/merged_data_map.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/platform_memory_allocator.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/executor/tensor_parser.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch/schema/program_generated.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace executorch::runtime;
using executorch::extension::BufferDataLoader;

namespace {

constexpr size_t kPoolBytes = 64u << 20;

// Memory that begins at a multiple of 64.
class Memory {
 public:
  explicit Memory(size_t size) : bytes_(size + 64) {}

  uint8_t* data() {
    auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Counts what is asked for, and how far the pool has ever been filled.
class CountingAllocator final : public MemoryAllocator {
 public:
  CountingAllocator(uint32_t size, uint8_t* base) : MemoryAllocator(size, base), base_(base) {}

  void* allocate(size_t size, size_t alignment) override {
    auto* start = static_cast<uint8_t*>(MemoryAllocator::allocate(size, alignment));
    if (start != nullptr) {
      ++count;
      // An order-sensitive digest (FNV-1a) of every size and alignment.
      for (uint64_t part : {static_cast<uint64_t>(size), static_cast<uint64_t>(alignment)}) {
        digest = (digest ^ part) * 0x100000001b3u;
      }
      size_t end = static_cast<size_t>(start - base_) + size;
      most = end > most ? end : most;
    }
    return start;
  }

  size_t count = 0;
  size_t most = 0;
  uint64_t digest = 0xcbf29ce484222325u;

 private:
  uint8_t* base_;
};

// A backend that takes any blob and allocates nothing.
class StandInBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer*, ArrayRef<CompileSpec>) const override {
    return static_cast<DelegateHandle*>(nullptr);
  }
  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>) const override {
    return Error::NotSupported;
  }
};

void stand_in_kernel(KernelRuntimeContext&, Span<EValue*>) {}

// Answers for every external tensor that the program names, with memory that is never read.
class ExternalData final : public NamedDataMap {
 public:
  explicit ExternalData(const executorch_flatbuffer::Program* program) {
    for (const auto* plan : *program->execution_plan()) {
      for (const auto* value : *plan->values()) {
        const auto* tensor = value->val_as_Tensor();
        const auto* extra = tensor == nullptr ? nullptr : tensor->extra_tensor_info();
        if (extra != nullptr && extra->location() == executorch_flatbuffer::TensorDataLocation::EXTERNAL) {
          tensors_[extra->fully_qualified_name()->str()] = tensor;
        }
      }
    }
  }

  bool empty() const { return tensors_.empty(); }
  Result<const TensorLayout> get_tensor_layout(std::string_view key) const override {
    auto found = tensors_.find(std::string(key));
    if (found == tensors_.end()) {
      return Error::NotFound;
    }
    const auto* tensor = found->second;
    return TensorLayout::create(Span<const int32_t>(tensor->sizes()->data(), tensor->sizes()->size()),
                                Span<const uint8_t>(tensor->dim_order()->data(), tensor->dim_order()->size()),
                                static_cast<executorch::aten::ScalarType>(tensor->scalar_type()));
  }
  Result<FreeableBuffer> get_data(std::string_view key) const override {
    auto layout = get_tensor_layout(key);
    if (!layout.ok()) {
      return layout.error();
    }
    return FreeableBuffer(this, layout->nbytes(), nullptr);
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::Ok; }
  Result<uint32_t> get_num_keys() const override { return static_cast<uint32_t>(tensors_.size()); }
  Result<const char*> get_key(uint32_t index) const override {
    auto found = tensors_.begin();
    std::advance(found, index);
    return found->first.c_str();
  }

 private:
  std::map<std::string, const executorch_flatbuffer::Tensor*> tensors_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> found;
  size_t start = 0;
  while (start <= text.size()) {
    size_t stop = std::min(text.find(',', start), text.size());
    found.push_back(text.substr(start, stop - start));
    start = stop + 1;
  }
  return found;
}

// Registers a stand-in for every backend that the program names.
void register_backends(const executorch_flatbuffer::Program* program) {
  static StandInBackend backend;
  static std::set<std::string> known;
  for (const auto* plan : *program->execution_plan()) {
    for (const auto* delegate : *plan->delegates()) {
      auto [name, is_new] = known.insert(delegate->id()->str());
      if (is_new && get_backend_class(name->c_str()) == nullptr) {
        (void)register_backend({name->c_str(), &backend});
      }
    }
  }
}

// Runs a method whose inputs are zeros; -1 if it fails, or else the temporary memory that was asked for.
long run(Method& method, CountingAllocator& temp) {
  temp.most = 0;
  std::vector<std::unique_ptr<Memory>> given;
  for (size_t i = 0; i < method.inputs_size(); ++i) {
    EValue input = method.get_input(i);
    if (input.isTensor()) {
      auto tensor = input.toTensor();
      given.push_back(std::make_unique<Memory>(tensor.nbytes()));
      if (tensor.mutable_data_ptr() == nullptr &&
          executorch::runtime::internal::set_tensor_data(tensor, given.back()->data(), tensor.nbytes()) !=
              Error::Ok) {
        return -1;
      }
      std::memset(tensor.mutable_data_ptr(), 0, tensor.nbytes());
    }
    if (method.set_input(input, i) != Error::Ok) {
      return -1;
    }
  }
  for (size_t i = 0; i < method.outputs_size(); ++i) {
    const EValue& output = method.get_output(i);
    if (output.isTensor() && output.toTensor().const_data_ptr() == nullptr) {
      given.push_back(std::make_unique<Memory>(output.toTensor().nbytes()));
      if (method.set_output_data_ptr(given.back()->data(), output.toTensor().nbytes(), i) != Error::Ok) {
        return -1;
      }
    }
  }
  return method.execute() == Error::Ok ? static_cast<long>(temp.most) : -1;
}

void measure(const char* file, const Program& program, const executorch_flatbuffer::ExecutionPlan* plan,
             const ExternalData& external, const std::string& pool) {
  std::set<std::string> names;
  for (const auto* op : *plan->operators()) {
    std::string name = op->name()->str();
    if (op->overload() != nullptr && op->overload()->size() > 0) {
      name += "." + op->overload()->str();
    }
    names.insert(name);
  }
  std::vector<Kernel> kernels;
#ifndef RUN_KERNELS
  for (const auto& name : names) {
    kernels.push_back(Kernel(name.c_str(), stand_in_kernel));
  }
#endif

  std::vector<std::unique_ptr<Memory>> arenas;
  std::vector<Span<uint8_t>> spans;
  auto meta = program.method_meta(plan->name()->c_str());
  for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
    auto size = static_cast<size_t>(meta->memory_planned_buffer_size(i).get());
    arenas.push_back(std::make_unique<Memory>(size));
    spans.push_back({arenas.back()->data(), size});
  }
  HierarchicalAllocator planned({spans.data(), spans.size()});

  static Memory method_memory(kPoolBytes);
  CountingAllocator method_allocator(kPoolBytes, method_memory.data());
  size_t temp_size = pool == "none" ? 0 : std::strtoul(pool.c_str(), nullptr, 10);
  Memory temp_memory(temp_size);
  CountingAllocator temp(static_cast<uint32_t>(temp_size), temp_size == 0 ? nullptr : temp_memory.data());
  MemoryManager manager(&method_allocator, &planned, pool == "none" ? nullptr : &temp);

  auto load = [&](MemoryManager& memory) {
    return program.load_method(plan->name()->c_str(), &memory, nullptr,
                               external.empty() ? nullptr : &external, nullptr,
                               {kernels.data(), kernels.size()});
  };
  auto method = load(manager);
  std::printf("{\"file\": \"%s\", \"method\": \"%s\", \"pool\": \"%s\", ", file, plan->name()->c_str(),
              pool.c_str());
  if (!method.ok()) {
    std::printf("\"error\": %u}\n", static_cast<unsigned>(method.error()));
    return;
  }
  std::printf("\"method_bytes\": %zu, \"method_count\": %zu, \"digest\": \"%016llx\", \"temp_bytes\": %zu, ",
              method_allocator.most, method_allocator.count,
              static_cast<unsigned long long>(method_allocator.digest), temp.most);

#ifdef RUN_KERNELS
  std::printf("\"running_bytes\": %ld, ", run(method.get(), temp));
#endif
  // Once more as Arm's executor_runner does it: planned buffers and values of inputs come from the same pool.
  static Memory runner_memory(kPoolBytes);
  CountingAllocator runner_allocator(kPoolBytes, runner_memory.data());
  for (size_t i = 0; i < spans.size(); ++i) {
#ifdef RUNNER_FAST_MEMORY
    // From 1.5 on it passes over empty buffers, and one memory id has a pool of its own.
    if (spans[i].size() == 0 || i + 1 == RUNNER_FAST_MEMORY) {
      continue;
    }
#endif
    spans[i] = {static_cast<uint8_t*>(runner_allocator.allocate(spans[i].size(), 16)), spans[i].size()};
  }
  HierarchicalAllocator runner_planned({spans.data(), spans.size()});
  temp.reset();
  MemoryManager runner_manager(&runner_allocator, &runner_planned, pool == "none" ? nullptr : &temp);
  auto again = load(runner_manager);
  runner_allocator.allocateList<EValue>(again.ok() ? again->method_meta().num_inputs() : 0);
  std::printf("\"runner_bytes\": %zu}\n", runner_allocator.most);
}

void measure_file(const char* path, const std::vector<std::string>& pools) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  Memory memory(bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  BufferDataLoader loader(memory.data(), bytes.size());
  auto program = Program::load(&loader, Program::Verification::InternalConsistency);
  if (!program.ok()) {
    std::printf("{\"file\": \"%s\", \"error\": %u}\n", path, static_cast<unsigned>(program.error()));
    return;
  }
  const auto* flatbuffer = executorch_flatbuffer::GetProgram(memory.data());
  register_backends(flatbuffer);
  ExternalData external(flatbuffer);
  for (const auto* plan : *flatbuffer->execution_plan()) {
    for (const auto& pool : pools) {
      measure(path, program.get(), plan, external, pool);
    }
  }
}

// What the runtime declares in method.cpp alone; the counts of every method show whether it is so.
struct BackendDelegateLike {
  FreeableBuffer segment;
  const BackendInterface* backend;
  DelegateHandle* handle;
};
struct ChainLike {
  const void* chain;
  Span<InstructionArgs> arguments;
  OpFunction* kernels;
};

#define FOR_STRUCTURES(DO)                                     \
  DO(pointer, void*)                                           \
  DO(value, EValue)                                            \
  DO(flag, bool)                                               \
  DO(integer, int64_t)                                         \
  DO(size, int32_t)                                            \
  DO(order, uint8_t)                                           \
  DO(tensor, executorch::aten::Tensor)                         \
  DO(optional_tensor, std::optional<executorch::aten::Tensor>) \
  DO(tensor_impl, executorch::aten::TensorImpl)                \
  DO(boxed_list, BoxedEvalueList<int64_t>)                     \
  DO(array, ArrayRef<double>)                                  \
  DO(external, deserialization::NamedData)                     \
  DO(delegate, BackendDelegateLike)                            \
  DO(compile_spec, CompileSpec)                                \
  DO(merged_data_map, internal::MergedDataMap)                 \
  DO(chain, ChainLike)                                         \
  DO(kernel, OpFunction)                                       \
  DO(arguments, InstructionArgs)                               \
  DO(tensor_meta, TensorMeta)                                  \
  DO(platform_allocator, internal::PlatformMemoryAllocator)

void show_structures() {
  const char* before = "{";
#define SHOW(name, ...)                                                                          \
  std::printf("%s\"" #name "\": [%zu, %zu]", before, sizeof(__VA_ARGS__), alignof(__VA_ARGS__)); \
  before = ", ";
  FOR_STRUCTURES(SHOW)
  std::printf("}\n");
}

#ifdef EXPECTED_STRUCTURES
// For targets that nothing here runs: name_size and name_alignment of each are constants in this header.
#include EXPECTED_STRUCTURES
#define EXPECT(name, ...)                                           \
  static_assert(sizeof(__VA_ARGS__) == name##_size, #name " size"); \
  static_assert(alignof(__VA_ARGS__) == name##_alignment, #name " alignment");
FOR_STRUCTURES(EXPECT)
#endif

}  // namespace

int main(int argc, char** argv) {
  runtime_init();
  if (argc < 3) {
    show_structures();
    return 0;
  }
  auto pools = split(argv[1]);
  for (int i = 2; i < argc; ++i) {
    measure_file(argv[i], pools);
  }
  return 0;
}
