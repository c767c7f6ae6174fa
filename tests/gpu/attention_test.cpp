/// Attention at the shapes of real models, where the device may take another way than at odd ones: against
/// the same device at a pitch that leaves it only its own kernels; equal bits in reruns and in graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/raw_device.h"

namespace octachoron::gpu {
namespace {

struct Shape {
  std::int64_t sequences, length, heads, key_heads, size;
  std::int64_t tokens() const { return sequences * length; }
  std::int64_t columns() const { return (heads + 2 * key_heads) * size; }
};

void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.sequences << " x " << s.length << ", heads " << s.heads << "/" << s.key_heads << " of " << s.size;
}

float to_float(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Memory of the device.
class Block {
 public:
  Block(const Device& device, std::int64_t bytes)
      : device_(device),
        bytes_(std::size_t(bytes)),
        memory_(device.allocate(OCT_MEMORY_DEVICE, std::max(bytes_, std::size_t(1)))) {}
  ~Block() { device_.release(OCT_MEMORY_DEVICE, memory_); }
  Block(const Block&) = delete;
  void* at() const { return memory_; }
  void fill(unsigned char byte) const { put(std::vector<unsigned char>(bytes_, byte)); }
  template <class T>
  void put(const std::vector<T>& from) const {
    copy(memory_, from.data(), from.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> get() const {
    std::vector<T> to(bytes_ / sizeof(T));
    copy(to.data(), memory_, bytes_);
    return to;
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    device_.check(device_.table().copy(device_.handle(), to, from, bytes, device_.lane()), "copy");
    device_.synchronize();
  }
  const Device& device_;
  std::size_t bytes_;
  void* memory_;
};

/// A layer's attention, forward and backward, in rows with `gap` elements between them.
class Layer {
 public:
  Layer(const Device& device, const Shape& s, std::int64_t gap)
      : device_(device),
        s_(s),
        gap_(gap),
        forward_(describe(OCT_ATTENTION, {wide(), narrow(), statistics()}, attributes(), {scale()})),
        backward_(describe(OCT_ATTENTION_BACKWARD, {wide(), narrow(), statistics(), narrow(), wide()},
                           attributes(), {scale()})),
        workspace_bytes_(std::max(workspace(forward_), workspace(backward_))),
        qkv(device, 2 * s.tokens() * wide().pitch),
        out(device, 2 * s.tokens() * narrow().pitch),
        lse(device, 4 * s.tokens() * s.heads),
        dout(device, 2 * s.tokens() * narrow().pitch),
        dqkv(device, 2 * s.tokens() * wide().pitch),
        scratch(device, workspace_bytes_),
        forward_id_(device.prepare(forward_)),
        backward_id_(device.prepare(backward_)) {
    random_rows(qkv, wide(), 1);
    random_rows(dout, narrow(), 2);
  }

  /// The results hold NaN before.
  void poison() const {
    for (const Block* block : {&out, &lse, &dqkv}) block->fill(0xff);
    if (workspace_bytes_ < std::int64_t(1) << 28) scratch.fill(0xff);
  }
  void enqueue() const {
    void* const f[] = {qkv.at(), out.at(), lse.at(), scratch.at()};
    void* const b[] = {qkv.at(), out.at(), lse.at(), dout.at(), dqkv.at(), scratch.at()};
    const oct_device_table& t = device_.table();
    device_.check(t.enqueue(device_.handle(), forward_id_, f, device_.lane()), "enqueue");
    device_.check(t.enqueue(device_.handle(), backward_id_, b, device_.lane()), "enqueue");
  }
  void run() const {
    poison();
    enqueue();
    device_.synchronize();
  }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Without the gaps.
  std::vector<float> rows(const Block& block, std::int64_t columns) const {
    const auto all = block.get<std::uint16_t>();
    std::vector<float> values;
    values.reserve(std::size_t(s_.tokens() * columns));
    for (std::int64_t t = 0; t < s_.tokens(); ++t)
      for (std::int64_t c = 0; c < columns; ++c)
        values.push_back(to_float(all[std::size_t(t * (columns + gap_) + c)]));
    return values;
  }

 private:
  oct_matrix wide() const { return {OCT_BF16, 0, s_.tokens(), s_.columns(), s_.columns() + gap_}; }
  oct_matrix narrow() const {
    return {OCT_BF16, 0, s_.tokens(), s_.heads * s_.size, s_.heads * s_.size + gap_};
  }
  oct_matrix statistics() const { return {OCT_F32, 0, s_.tokens(), s_.heads, s_.heads}; }
  std::vector<std::int64_t> attributes() const { return {s_.length, s_.heads, s_.key_heads, s_.size}; }
  double scale() const { return 1 / std::sqrt(double(s_.size)); }
  std::int64_t workspace(const oct_operation& operation) const {
    const oct_support support = device_.support(operation);
    if (support.supported == 0) throw std::runtime_error(support.reason);
    return support.workspace_bytes;
  }
  /// The same numbers for any gap.
  void random_rows(const Block& block, const oct_matrix& m, unsigned seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> some(1 << 16), all(std::size_t(m.rows * m.pitch));
    for (std::uint16_t& v : some) {
      const float value = normal(generator);
      std::uint32_t bits;
      std::memcpy(&bits, &value, 4);
      v = std::uint16_t(bits >> 16);
    }
    for (std::int64_t t = 0; t < m.rows; ++t)
      for (std::int64_t c = 0; c < m.columns; ++c)
        all[std::size_t(t * m.pitch + c)] = some[generator() % some.size()];
    block.put(all);
  }

  const Device& device_;
  Shape s_;
  std::int64_t gap_;
  oct_operation forward_, backward_;
  std::int64_t workspace_bytes_;

 public:
  Block qkv, out, lse, dout, dqkv, scratch;

 private:
  std::int32_t forward_id_, backward_id_;
};

/// Root of the mean squared difference over that of the expected; infinite where something is not finite.
template <class T>
double relative_error(const std::vector<T>& actual, const std::vector<T>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = double(actual[i]) - double(expected[i]);
    difference += d * d;
    size += double(expected[i]) * double(expected[i]);
  }
  return std::isfinite(difference) && size > 0 ? std::sqrt(difference / size) : INFINITY;
}

std::vector<float> columns_of(const std::vector<float>& rows, std::int64_t width, std::int64_t from,
                              std::int64_t count) {
  std::vector<float> some;
  for (std::size_t row = 0; row < rows.size(); row += std::size_t(width))
    some.insert(some.end(), rows.begin() + std::int64_t(row) + from,
                rows.begin() + std::int64_t(row) + from + count);
  return some;
}

class Attention : public testing::TestWithParam<Shape> {};

/// A gap of four elements: rows at multiples of 8 bytes, which cuDNN does not take.
TEST_P(Attention, AgreesWithTheOwnKernels) {
  const Shape& s = GetParam();
  const Device device(conformance::plugin_under_test());
  const Layer layer(device, s, 0), own(device, s, 4);
  layer.run();
  own.run();
  const std::int64_t n = s.heads * s.size, k = s.key_heads * s.size;
  EXPECT_LT(relative_error(layer.rows(layer.out, n), own.rows(own.out, n)), 5e-3);
  const auto lse = layer.lse.get<float>(), expected = own.lse.get<float>();
  for (std::size_t i = 0; i < lse.size(); ++i) ASSERT_NEAR(lse[i], expected[i], 1e-3) << "row, head " << i;
  const auto gradient = layer.rows(layer.dqkv, s.columns()), reference = own.rows(own.dqkv, s.columns());
  const struct {
    const char* name;
    std::int64_t from, count;
  } kParts[] = {{"dq", 0, n}, {"dk", n, k}, {"dv", n + k, k}};
  for (const auto& part : kParts) {
    EXPECT_LT(relative_error(columns_of(gradient, s.columns(), part.from, part.count),
                             columns_of(reference, s.columns(), part.from, part.count)),
              1e-2)
        << part.name;
  }
}

TEST_P(Attention, RerunsAndGraphsGiveEqualBits) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Layer layer(device, GetParam(), 0);
  const auto results = [&] {
    auto bits = layer.dqkv.get<std::uint16_t>();
    const auto out = layer.out.get<std::uint16_t>(), lse = layer.lse.get<std::uint16_t>();
    bits.insert(bits.end(), out.begin(), out.end());
    bits.insert(bits.end(), lse.begin(), lse.end());
    return bits;
  };
  layer.run();
  const auto first = results();
  for (int rerun = 0; rerun < 3; ++rerun) {
    layer.run();
    ASSERT_TRUE(results() == first) << "rerun " << rerun;
  }
  oct_lane* lanes[] = {device.lane()};
  ASSERT_EQ(t.capture_begin(device.handle(), lanes, 1), OCT_OK);
  layer.enqueue();
  std::int32_t graph = -1;
  ASSERT_EQ(t.capture_end(device.handle(), &graph), OCT_OK);
  for (int launch = 0; launch < 2; ++launch) {
    layer.poison();
    ASSERT_EQ(t.graph_launch(device.handle(), graph, device.lane()), OCT_OK);
    device.synchronize();
    ASSERT_TRUE(results() == first) << "launch " << launch << " of the graph";
  }
  t.graph_destroy(device.handle(), graph);
}

// GPT-2, Llama 8B and a quarter of it, lengths that fill no tile, small ones, gradients in parts: by
// sequences and by key heads.
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Shape{4, 1024, 12, 12, 64}, Shape{1, 4096, 32, 8, 128},
                                         Shape{1, 2048, 8, 2, 128}, Shape{2, 1000, 4, 2, 64},
                                         Shape{3, 37, 3, 1, 24}, Shape{2, 300, 5, 5, 80},
                                         Shape{2, 4096, 32, 8, 128}, Shape{1, 8192, 32, 8, 64}));

/// Where rows begin at odd addresses the result is that of the own kernels, not an error.
TEST(AttentionAddresses, OddOnesAreTaken) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Shape s = {1, 128, 2, 2, 64};
  const Layer layer(device, s, 0), own(device, s, 4);
  own.run();
  layer.poison();
  const oct_matrix wide = {OCT_BF16, 0, s.tokens(), s.columns(), s.columns()},
                   narrow = {OCT_BF16, 0, s.tokens(), s.heads * s.size, s.heads * s.size},
                   statistics = {OCT_F32, 0, s.tokens(), s.heads, s.heads};
  const oct_operation forward =
      describe(OCT_ATTENTION, {wide, narrow, statistics}, {s.length, s.heads, s.key_heads, s.size}, {0.125});
  const Block moved(device, 2 * s.tokens() * s.columns() + 2);
  std::vector<std::uint16_t> values = {0};
  for (const std::uint16_t v : layer.qkv.get<std::uint16_t>()) values.push_back(v);
  moved.put(values);
  void* const pointers[] = {static_cast<char*>(moved.at()) + 2, layer.out.at(), layer.lse.at(),
                            layer.scratch.at()};
  device.check(t.enqueue(device.handle(), device.prepare(forward), pointers, device.lane()), "enqueue");
  device.synchronize();
  EXPECT_EQ(layer.rows(layer.out, s.heads * s.size), own.rows(own.out, s.heads * s.size));
}

}  // namespace
}  // namespace octachoron::gpu
