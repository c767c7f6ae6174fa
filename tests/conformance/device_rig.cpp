#include "tests/conformance/device_rig.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

#include "core/numerics/formats.h"

namespace octachoron::conformance {
namespace {

constexpr unsigned char kGap = 0xa5;

std::uint16_t to_bf16(double value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto magnitude = std::abs(value);
  if (std::isinf(value) || magnitude == 0)
    return std::uint16_t((std::signbit(value) ? 0x8000 : 0) | (magnitude > 0 ? 0x7f80 : 0));
  if (magnitude >=
      0x1p-126) {  // normal numbers in integers, which is quicker: 45 of 52 bits are rounded away
    std::uint64_t wide;
    std::memcpy(&wide, &magnitude, 8);
    wide = (wide + (std::uint64_t(1) << 44) - 1 + (wide >> 45 & 1)) >> 45 << 45;
    double nearest;
    std::memcpy(&nearest, &wide, 8);
    const auto narrow = float(nearest);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    return std::uint16_t((bits >> 16) | (std::signbit(value) ? 0x8000 : 0));
  }
  const int exponent = std::max(-126, std::ilogb(magnitude));
  const double unit = std::ldexp(1., exponent - 7);
  const float nearest = float(std::nearbyint(magnitude / unit) * unit);  // ties to even
  std::uint32_t bits;
  std::memcpy(&bits, &nearest, 4);
  return std::uint16_t((bits >> 16) | (std::signbit(value) ? 0x8000 : 0));
}

void encode(DType type, double value, unsigned char* to) {
  const auto put = [to](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (type) {
    case OCT_F32:
      return put(float(value));
    case OCT_F64:
      return put(value);
    case OCT_BF16:
      return put(to_bf16(value));
    case OCT_I32:
      return put(std::int32_t(value));
    case OCT_U32:
      return put(std::uint32_t(value));
    case OCT_U64:
      return put(std::uint64_t(value));
    case OCT_U8:
      return put(std::uint8_t(value));
    case OCT_E4M3:
    case OCT_E5M2:
      return put(encode_fp8(type, float(value)));
    default:
      throw std::logic_error("no encoding");
  }
}

double decode(DType type, const unsigned char* from) {
  const auto get = [from](auto v) {
    std::memcpy(&v, from, sizeof v);
    return double(v);
  };
  switch (type) {
    case OCT_F32:
      return get(float{});
    case OCT_F64:
      return get(double{});
    case OCT_BF16: {
      std::uint16_t half;
      std::memcpy(&half, from, 2);
      const std::uint32_t bits = std::uint32_t(half) << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case OCT_I32:
      return get(std::int32_t{});
    case OCT_U32:
      return get(std::uint32_t{});
    case OCT_U64:
      return get(std::uint64_t{});
    case OCT_U8:
      return get(std::uint8_t{});
    case OCT_E4M3:
    case OCT_E5M2:
      return decode_fp8(type, *from);
    default:
      throw std::logic_error("no decoding");
  }
}

std::vector<unsigned char> bytes_of(const Operand& o) {
  const auto size = std::size_t(size_of(o.type));
  std::vector<unsigned char> bytes(std::size_t(o.rows * o.pitch()) * size, kGap);
  for (std::int64_t r = 0; r < o.rows; ++r) {
    for (std::int64_t c = 0; c < o.columns; ++c)
      encode(o.type, o.at(r, c), &bytes[std::size_t(r * o.pitch() + c) * size]);
  }
  return bytes;
}

void read_back(const std::vector<unsigned char>& bytes, Operand* o) {
  const auto size = std::size_t(size_of(o->type));
  for (std::int64_t r = 0; r < o->rows; ++r) {
    for (std::int64_t c = 0; c < o->columns; ++c) {
      o->values[std::size_t(r * o->columns + c)] =
          decode(o->type, &bytes[std::size_t(r * o->pitch() + c) * size]);
    }
    for (std::size_t b = std::size_t(r * o->pitch() + o->columns) * size;
         b < std::size_t((r + 1) * o->pitch()) * size; ++b) {
      ASSERT_EQ(bytes[b], kGap) << "a gap between rows was written";
    }
  }
}

}  // namespace

const oct_plugin& load_plugin(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<oct_plugin_entry>(dlsym(library, OCT_PLUGIN_ENTRY));
  if (entry == nullptr) throw std::runtime_error("no entry symbol");
  return *entry();
}

const oct_plugin& plugin_under_test() {
  const char* asked = std::getenv("OCTACHORON_DEVICE_PLUGIN");
  return load_plugin(asked != nullptr ? asked : OCTACHORON_BINARY_DIR "/lib/octachoron/device-cpu.so");
}

bool computes(DType type) {
  const Rig rig;
  return rig.refusal(describe(OCT_GELU, {{type, 1, 1, {}}, {type, 1, 1, {}}})).empty();
}

namespace {
const std::vector<DType>& types() {
  static const std::vector<DType> computed = [] {
    std::vector<DType> types = {OCT_F32, OCT_F64, OCT_BF16};
    std::erase_if(types, [](DType type) { return !computes(type); });
    return types;
  }();
  return computed;
}
}  // namespace
const DType* Types::begin() const {
  return types().data();
}
const DType* Types::end() const {
  return types().data() + types().size();
}

double rounded(DType type, double value) {
  unsigned char bytes[8];
  encode(type, value, bytes);
  return decode(type, bytes);
}

Operand absent() {
  return {};
}
Operand zeros(DType type, std::int64_t rows, std::int64_t columns) {
  return filled(type, rows, columns, std::vector<double>(std::size_t(rows * columns)));
}
Operand filled(DType type, std::int64_t rows, std::int64_t columns, std::vector<double> values) {
  for (double& v : values) v = rounded(type, v);
  return {type, rows, columns, std::move(values)};
}
Operand random(DType type, std::int64_t rows, std::int64_t columns, unsigned seed, double scale) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(std::size_t(rows * columns));
  for (double& v : values) v = scale * normal(generator);
  return filled(type, rows, columns, std::move(values));
}
Operand with_gap(Operand operand, std::int64_t gap) {
  operand.gap = gap;
  return operand;
}
Operand alias_of(const std::vector<Operand>& operands, int k) {
  Operand o = operands[std::size_t(k)];
  o.alias = k;
  return o;
}

oct_operation describe(oct_op op, const std::vector<Operand>& operands, const Attributes& attributes) {
  oct_operation d{};
  d.struct_size = sizeof d;
  d.op = op;
  d.operands = std::int32_t(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) d.operand[k] = operands[k].matrix();
  std::copy(attributes.i.begin(), attributes.i.end(), d.i);
  std::copy(attributes.f.begin(), attributes.f.end(), d.f);
  return d;
}

struct Rig::Memory {
  const Rig& rig;
  void* data = nullptr;
  ~Memory() { rig.table().release(rig.device(), OCT_MEMORY_DEVICE, data); }
};

Rig::Rig(int threads, const oct_plugin& plugin)
    : plugin_(&plugin), table_(static_cast<const oct_device_table*>(plugin.table)) {
  oct_host host{};
  host.struct_size = sizeof host;
  host.size = host.local_size = 1;
  const oct_device_options options = {sizeof options, threads, 0, nullptr};
  check(table_->create(&host, &options, &device_), "create");
  check(table_->lane_create(device_, "compute", 0, &lane_), "lane_create");
}

Rig::~Rig() {
  table_->lane_destroy(device_, lane_);
  table_->destroy(device_);
}

void Rig::check(oct_status status, const char* what) const {
  if (status != OCT_OK) throw std::runtime_error(std::string(what) + ": " + plugin_->last_error());
}

oct_device_properties Rig::properties() const {
  oct_device_properties p{};
  p.struct_size = sizeof p;
  check(table_->properties(device_, &p), "properties");
  return p;
}

std::unique_ptr<Rig::Memory> Rig::allocate(std::size_t bytes) {
  auto memory = std::make_unique<Memory>(Memory{*this});
  check(table_->allocate(device_, OCT_MEMORY_DEVICE, bytes, &memory->data), "allocate");
  return memory;
}

void Rig::run(oct_op op, std::vector<Operand>& operands, const Attributes& attributes) {
  const oct_operation description = describe(op, operands, attributes);
  oct_support support{};
  support.struct_size = sizeof support;
  check(table_->query(device_, &description, &support), "query");
  ASSERT_TRUE(support.supported) << support.reason;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<void*> pointers;
  for (const Operand& o : operands) {
    bytes.push_back(bytes_of(o));
    memory.push_back(o.rows > 0 ? allocate(bytes.back().size()) : nullptr);
    pointers.push_back(o.alias >= 0 ? pointers[std::size_t(o.alias)]
                       : o.rows > 0 ? memory.back()->data
                                    : nullptr);
    if (o.rows > 0 && o.alias < 0)
      check(table_->copy(device_, pointers.back(), bytes.back().data(), bytes.back().size(), lane_), "copy");
  }
  const std::vector<unsigned char> poison(std::size_t(support.workspace_bytes) + 64, 0xff);
  memory.push_back(allocate(poison.size()));
  pointers.push_back(memory.back()->data);
  check(table_->copy(device_, pointers.back(), poison.data(), poison.size(), lane_), "copy");
  std::int32_t id = -1;
  check(table_->prepare(device_, &description, &id), "prepare");
  check(table_->enqueue(device_, id, pointers.data(), lane_), "enqueue");
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].rows > 0)
      check(table_->copy(device_, bytes[k].data(), pointers[k], bytes[k].size(), lane_), "copy");
  }
  std::vector<unsigned char> workspace(poison.size());
  check(table_->copy(device_, workspace.data(), pointers.back(), workspace.size(), lane_), "copy");
  check(table_->synchronize(device_), "synchronize");
  ASSERT_EQ(poll_error(), "");
  for (std::size_t b = poison.size() - 64; b < poison.size(); ++b)
    ASSERT_EQ(workspace[b], 0xff) << "written beyond the workspace";
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].rows > 0) read_back(bytes[k], &operands[k]);
  }
}

std::string Rig::refusal(const oct_operation& operation) const {
  oct_support support{};
  support.struct_size = sizeof support;
  check(table_->query(device_, &operation, &support), "query");
  return support.supported ? "" : support.reason;
}

std::string Rig::last_error() const {
  return plugin_->last_error();
}

std::string Rig::poll_error() {
  char text[512] = {};
  return table_->poll_error(device_, text, sizeof text) == OCT_OK ? "" : text;
}

double difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double largest = 0, scale = 1e-30;
  if (actual.size() != expected.size()) return INFINITY;
  for (std::size_t k = 0; k < actual.size(); ++k) {
    if (std::isnan(actual[k]) != std::isnan(expected[k])) return INFINITY;
    if (std::isnan(actual[k]) || actual[k] == expected[k]) continue;
    largest = std::max(largest, std::abs(actual[k] - expected[k]));
  }
  for (const double e : expected) {
    if (std::isfinite(e)) scale = std::max(scale, std::abs(e));
  }
  return largest / scale;
}

double tolerance(DType type) {
  switch (type) {
    case OCT_F64:
      return 1e-13;
    case OCT_BF16:
      return 4e-3;
    default:
      return 1e-6;
  }
}

}  // namespace octachoron::conformance
