#include <cmath>
#include <random>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

/// Random legal values of every kind. Grids and families that this version refuses are drawn too: their text
/// form is stored in checkpoints all the same.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  std::int64_t integer(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random_);
  }
  bool coin() { return integer(0, 1) == 1; }
  double real() {
    return std::uniform_real_distribution(0.0, 1.0)(random_) * std::pow(10.0, double(integer(-12, 3)));
  }
  template <class T>
  T one_of(std::vector<T> values) {
    return values[std::size_t(integer(0, std::int64_t(values.size()) - 1))];
  }
  std::string word() {
    std::string result;
    const std::string letters = "abcXYZ019._-/#;=%[]'\"";
    for (std::int64_t length = integer(1, 12); length > 0; --length)
      result += letters[std::size_t(integer(0, std::int64_t(letters.size()) - 1))];
    return result;
  }
  std::vector<std::string> words() {
    std::vector<std::string> result;
    for (std::int64_t count = integer(0, 3); count > 0; --count) result.push_back(word());
    return result;
  }
  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> result;
    for (std::int64_t step = 1; step < 40; ++step)
      if (coin()) result.push_back(step);
    return result;
  }

 private:
  std::mt19937 random_;
};

Parameters draw(Draw& d) {
  Parameters p;
  p.run = {d.one_of<std::string>({"a", "A.b-c_9"}),
           d.word(),
           d.integer(0, 2147483647),
           std::uint64_t(d.integer(0, 1LL << 62)) * 4 + 3,
           d.one_of<std::string>({"auto", "none", "x.h5"}),
           d.integer(1, 1000),
           d.integer(0, 1000000),
           d.integer(0, 1000)};
  p.grid = {int(d.integer(1, 64)), int(d.integer(1, 64)), int(d.integer(1, 8)), int(d.integer(1, 8)),
            int(d.integer(1, 4))};
  p.backend = {d.one_of<std::string>({"cpu", "cuda", "./x.so"}), "fp8-delayed",
               d.one_of<std::string>({"mpi", "nccl"}), d.coin() ? d.word() : ""};
  const ModelFamily family = d.one_of<ModelFamily>({ModelFamily::gpt2, ModelFamily::llama});
  p.model = {family,
             d.integer(1, 100),
             2 * d.integer(1, 5000),
             d.integer(1, 128),
             d.integer(1, 1 << 20),
             d.integer(1, 128),
             2 * d.integer(1, 128),
             d.integer(1, 1 << 20),
             d.integer(2, 1 << 24),
             d.coin(),
             d.coin(),
             family == ModelFamily::gpt2 ? 0 : 1 + d.real(),
             1e-30 + d.real(),
             d.real()};
  p.batch = {d.integer(1, 1 << 20), d.integer(1, 64)};
  p.precision = {d.one_of<std::string>({"hybrid", "e4m3"}),
                 int(d.integer(0, 16)),
                 int(d.integer(1, 4096)),
                 d.one_of<std::string>({"max", "most_recent", "frozen"}),
                 d.one_of<std::string>({"bf16", "fp8"}),
                 d.words(),
                 d.integer(0, 10),
                 d.integer(0, 10),
                 d.one_of<std::string>({"refuse", "bf16"})};
  p.optimizer = {d.real(),
                 d.real(),
                 d.integer(0, 100),
                 d.one_of<Decay>({Decay::cosine, Decay::linear, Decay::constant}),
                 d.integer(1, 1 << 30),
                 0.999 * std::min(1.0, d.real()),
                 0.999 * std::min(1.0, d.real()),
                 d.real(),
                 d.real(),
                 d.real()};
  p.data = {
      d.words(), d.words(),          d.one_of<std::string>({"auto", "text", "hdf5", "megatron", "llmc"}),
      d.coin(),  d.integer(0, 1000), d.integer(0, 1000)};
  p.parallel = {
      d.coin(),
      d.coin(),
      d.one_of<ScheduleKind>({ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::gpipe}),
      d.steps(),
      d.one_of<Recompute>({Recompute::none, Recompute::selective, Recompute::full}),
      1e-9 + d.real()};
  p.checkpoint = {d.word(), d.integer(0, 1000), d.integer(0, 1000), d.integer(0, 1000), d.coin()};
  p.trace = {d.steps(), d.steps()};
  p.engine = {d.coin(), int(d.integer(0, 1024))};
  for (std::int64_t count = d.integer(0, 4); count > 0; --count)
    p.plugin[d.one_of<std::string>({"a", "a-b", "b"}) + "." + d.one_of<std::string>({"x", "y", "Z.w"})] =
        d.word();
  return p;
}

TEST(RoundTrip, RandomParametersReadBackTheSame) {
  Draw d(1);
  for (int trial = 0; trial < 500; ++trial) {
    const Parameters p = draw(d);
    const std::string text = format_parameters(p);
    ParsedParameters parsed = parse_parameter_text(text, "other.ini", {});
    ASSERT_EQ(parsed.values, p) << text;
    finalize(parsed, 7);
    ASSERT_EQ(parsed.values, p) << "effective parameters leave nothing to be derived:\n" << text;
    ASSERT_EQ(format_parameters(parsed.values), text);
  }
}

TEST(RoundTrip, EffectiveParametersAreAFileOfTheSameRun) {
  const Parameters p = completed({"grid.dp=2", "precision.exclude=a,b", "run.output=/x y/#1"});
  EXPECT_EQ(parse_parameter_text(format_parameters(p), "elsewhere.ini", {}).values, p);
}

}  // namespace
}  // namespace octachoron
