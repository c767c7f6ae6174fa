#include <gmock/gmock.h>

#include <cfloat>
#include <cstdio>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "tests/checkpoint/grid_tensors.h"
#include "tests/checkpoint/mpi_scratch.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

std::vector<int> divisors(int n) {
  std::vector<int> out;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

std::string save(int tp, const std::string& folder, std::int64_t step, DType dtype = OCT_F32) {
  const World world;
  const GridTensors grid(world.rank, world.size, tp, dtype);
  grid.fill();
  return save_checkpoint(MPI_COMM_WORLD, folder, header_of(step), grid.tensors, 0);
}

TEST(RoundTrip, WrittenOnOneSplitReadOnAnother) {
  const World world;
  const MpiScratch folder;
  for (const int from : divisors(world.size))
    for (const DType written : {OCT_F32, OCT_F64}) {
      const std::string path = save(from, folder.path(), 10, written);
      EXPECT_EQ(path, folder.path("step-00000010.h5"));
      for (const int to : divisors(world.size))
        for (const DType read : {OCT_F32, OCT_F64}) {
          const GridTensors grid(world.rank, world.size, to, read);
          EXPECT_EQ(load_checkpoint(MPI_COMM_WORLD, path, grid.tensors).step, 10);
          EXPECT_EQ(grid.wrong(), 0) << "tp " << from << " to " << to;
        }
    }
}

TEST(RoundTrip, ReadByFewerRanksAndByMore) {
  const World world;
  const MpiScratch folder;
  const std::string path = save(world.size, folder.path(), 10);
  const GridTensors alone(0, 1, 1, OCT_F32);  // every rank reads the whole for itself
  load_checkpoint(MPI_COMM_SELF, path, alone.tensors);
  EXPECT_EQ(alone.wrong(), 0);
  std::string single;
  if (world.rank == 0)
    single = save_checkpoint(MPI_COMM_SELF, folder.path("one"), header_of(20), alone.tensors, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const GridTensors grid(world.rank, world.size, world.size, OCT_F32);
  load_checkpoint(MPI_COMM_WORLD, folder.path("one/step-00000020.h5"), grid.tensors);
  EXPECT_EQ(grid.wrong(), 0);
}

TEST(RoundTrip, ChecksumsDoNotDependOnTheSplit) {
  const World world;
  const MpiScratch folder;
  std::vector<std::uint64_t> sums;
  for (const int tp : divisors(world.size)) {
    const CheckpointFile file(save(tp, folder.path(), 10));
    ASSERT_EQ(file.tensors().size(), 7u);
    for (std::size_t t = 0; t < 7; ++t) {
      if (sums.size() < 7) sums.push_back(file.tensors()[t].checksum);
      EXPECT_EQ(file.tensors()[t].checksum, sums[t]) << file.tensors()[t].path << " tp " << tp;
    }
  }
}

// A vector of which rank r holds the r-th equal part.
CheckpointTensor vector_part(const std::string& path, std::int64_t size, DType stored, void* data,
                             DType dtype) {
  const World world;
  const TensorLayout layout =
      as_vector(rows_split(size, 1, world.size, world.rank, round_up(size, world.size)));
  return {.path = path,
          .tensor = {path, layout},
          .ranges = {{0, 0, layout.local_size(), data, dtype}},
          .stored = stored};
}

TEST(RoundTrip, BitsSurvive) {  // F06
  const World world;
  const MpiScratch folder;
  const float awkward[] = {1.0f + 0x1p-20f, 1e-30f, -0.0f, FLT_MAX, FLT_TRUE_MIN, -1.5f};
  std::vector<float> values;
  for (int i = world.rank * int(ceil_div(6, world.size));
       i < 6 && int(values.size()) < ceil_div(6, world.size); ++i)
    values.push_back(awkward[i]);
  values.resize(std::size_t(ceil_div(6, world.size)));
  const std::vector<float> before = values;
  auto tensor = vector_part("/master/x", 6, OCT_F32, values.data(), OCT_F32);
  const std::string path = save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(1), {tensor}, 0);
  for (float& value : values) value = 9;
  load_checkpoint(MPI_COMM_WORLD, path, {tensor});
  const Piece part = tensor.tensor.layout.blocks.empty()
                         ? Piece{}
                         : pieces(tensor.tensor.layout, 0, tensor.tensor.layout.local_size())[0];
  EXPECT_EQ(std::memcmp(values.data(), before.data(), std::size_t(part.size()) * 4), 0);
}

TEST(RoundTrip, DoublesAreRoundedToNearest) {
  const World world;
  const MpiScratch folder;
  std::vector<double> values(2, 1.0 + 0x1p-24 + 0x1p-40);
  auto tensor = vector_part("/master/x", 2 * world.size, OCT_F32, values.data(), OCT_F64);
  const std::string path = save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(1), {tensor}, 0);
  load_checkpoint(MPI_COMM_WORLD, path, {tensor});
  EXPECT_EQ(values[0], 1.0 + 0x1p-23);
}

TEST(RoundTrip, Integers) {
  const World world;
  const MpiScratch folder;
  std::vector<std::uint64_t> wide(3, ~0ull - std::uint64_t(world.rank));
  std::vector<std::uint32_t> narrow(3, 0x7f800000u + std::uint32_t(world.rank));
  const std::vector<CheckpointTensor> tensors = {
      vector_part("/precision/a", 3 * world.size, OCT_U64, wide.data(), OCT_U64),
      vector_part("/precision/deep/b", 3 * world.size, OCT_U32, narrow.data(), OCT_U32)};
  const std::string path = save_checkpoint(MPI_COMM_WORLD, folder.path(), header_of(1), tensors, 0);
  wide.assign(3, 0), narrow.assign(3, 0);
  load_checkpoint(MPI_COMM_WORLD, path, tensors);
  EXPECT_EQ(wide[2], ~0ull - std::uint64_t(world.rank));
  EXPECT_EQ(narrow[2], 0x7f800000u + std::uint32_t(world.rank));
}

TEST(RoundTrip, HeaderSurvives) {
  const MpiScratch folder;
  const World world;
  const GridTensors grid(world.rank, world.size, 1, OCT_F32);
  CheckpointHeader header = header_of(123456789012);
  header.parameters = std::string(100000, 'p');  // more than an object header message holds
  header.versions = "";
  if (world.rank != 0) header.run_id = "another rank's opinion does not count";
  const CheckpointFile file(save_checkpoint(MPI_COMM_WORLD, folder.path(), header, grid.tensors, 0));
  EXPECT_EQ(file.path(), folder.path("step-123456789012.h5"));
  EXPECT_EQ(file.header().samples, header.samples);
  EXPECT_EQ(file.header().tokens, header.tokens);
  EXPECT_EQ(file.header().skipped, 1);
  EXPECT_EQ(file.header().seed, header.seed);
  EXPECT_EQ(file.header().run_id, "run-1");
  EXPECT_EQ(file.header().parameters, header.parameters);
  EXPECT_EQ(file.header().versions, "");
}

TEST(RoundTrip, GradientsUseTheSameWriter) {
  const MpiScratch folder;
  const World world;
  const GridTensors grid(world.rank, world.size, world.size, OCT_F32, "/gradient/");
  grid.fill();
  const std::string path = folder.path("gradients/step-00000001.h5");
  save_tensors(MPI_COMM_WORLD, path, header_of(1), grid.tensors);
  load_checkpoint(MPI_COMM_WORLD, path, grid.tensors);
  EXPECT_EQ(grid.wrong(), 0);
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  for (char buffer[512]; pipe && std::fgets(buffer, sizeof buffer, pipe);) out += buffer;
  if (pipe) ::pclose(pipe);
  return out;
}

TEST(RoundTrip, AnIndependentReaderSeesTheSame) {  // K01
#ifndef OCTACHORON_H5PY
  GTEST_SKIP() << "no python3 with h5py";
#else
  const World world;
  const MpiScratch folder;
  const std::string path = save(world.size, folder.path(), 7);
  on_rank_0([&] {
    const std::string seen =
        output_of(OCTACHORON_H5PY " " OCTACHORON_SOURCE_DIR "/tests/checkpoint/read_with_h5py.py " + path);
    EXPECT_THAT(seen,
                HasSubstr("attributes 1 7 56 7168 1 18446744073709551612 1\nrun_id run-1\ngroup master 7\n"));
    char last[64];
    for (const LogicalTensor& tensor : layouts(1, 0)) {
      const std::string shape = shape_text(tensor.layout);
      const float value = value_of("/master/" + tensor.name, tensor.layout.global_size() - 1);
      EXPECT_THAT(seen,
                  HasSubstr(text("dataset master/", tensor.name, " float32 ", shape, " contiguous good ")));
      double read = 0;
      const auto at = seen.find("dataset master/" + tensor.name + " float32 " + shape + " contiguous good ");
      ASSERT_NE(at, std::string::npos);
      ASSERT_EQ(std::sscanf(seen.c_str() + seen.find("good ", at), "good %63s", last), 1);
      read = std::strtod(last, nullptr);
      EXPECT_EQ(read, double(value)) << tensor.name;
    }
  });
#endif
}

}  // namespace
}  // namespace octachoron
