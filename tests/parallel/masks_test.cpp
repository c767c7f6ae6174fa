// Loss masks of token files on grids: the loss is the mean over all valid targets of the global batch,
// whatever the split.
#include <unistd.h>

#include "core/storage/hdf5_handle.h"
#include "core/train/evaluate.h"
#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

namespace {

using Mask = std::vector<std::uint8_t>;

// A token file of u16 with a mask that all ranks read. Collective.
class MaskedFile {
 public:
  MaskedFile(const std::vector<std::uint16_t>& ids, const Mask& mask) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    int id = int(::getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = (std::filesystem::temp_directory_path() / text("octachoron-masks-", id, ".h5")).string();
    if (rank_ == 0) {
      const Hdf5Handle access = file_access();
      const Hdf5Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                            "make a file");
      write(file, "tokens", H5T_STD_U16LE, H5T_NATIVE_UINT16, ids.data(), ids.size());
      write(file, "loss_mask", H5T_STD_U8LE, H5T_NATIVE_UINT8, mask.data(), mask.size());
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~MaskedFile() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::filesystem::remove(path_);
  }
  MaskedFile(const MaskedFile&) = delete;
  MaskedFile& operator=(const MaskedFile&) = delete;
  std::string train() const { return "data.train=" + path_; }
  std::string path() const { return path_; }
  bool is_rank_0() const { return rank_ == 0; }

 private:
  static void write(hid_t file, const char* name, hid_t type, hid_t memory, const void* data,
                    std::size_t count) {
    const hsize_t extent = count;
    const Hdf5Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose, "make a space");
    const Hdf5Handle dataset(H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             H5Dclose, "make a dataset");
    hdf5_check(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write");
  }

  std::string path_;
  int rank_ = 0;
};

class Masks : public GridTest {
 protected:
  // Two steps on the file, the gradients of the first of them, and what is left of the weights.
  struct Outcome {
    StepResult first, second;
    Tensors gradients, masters;
  };
  Outcome train(const MaskedFile& file, int dp, int tp, std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.end(), {"data.format=hdf5", file.train()});
    Outcome out;
    on_grid(parameters(dp, tp, overrides), [&](Trial& trial) {
      out.first = trial.step();
      out.gradients = trial.gradients();
      out.second = trial.step();
      out.masters = trial.masters();
    });
    return out;
  }

  static std::vector<std::uint16_t> ids(int count) {
    std::vector<std::uint16_t> out;
    for (int i = 0; i < count; ++i) out.push_back(std::uint16_t((i * i + i / 3) % kVocab));
    return out;
  }

  void expect_all_grids_equal(const MaskedFile& file, const std::vector<std::string>& overrides = {}) const {
    const Outcome one = train(file, 1, 1, overrides);
    for (const auto& [dp, tp] : {std::pair{2, 1}, {4, 1}, {2, 2}, {1, 4}}) {
      SCOPED_TRACE(text("dp=", dp, " tp=", tp));
      const Outcome many = train(file, dp, tp, overrides);
      if (!file.is_rank_0()) continue;
      EXPECT_TRUE(many.first.finite && many.second.finite);
      EXPECT_LE(relative(many.first.loss, one.first.loss), 1e-13);
      EXPECT_LE(relative(many.first.grad_norm, one.first.grad_norm), 1e-12);
      EXPECT_LE(relative(many.second.loss, one.second.loss), 1e-12);
      const Deviation worst = relative_deviation(many.gradients, one.gradients);
      EXPECT_LE(worst.value, 1e-11) << worst.tensor;
    }
  }
};

TEST_F(Masks, UnequalNumbersOfTargetsOnAllGrids) {  // E01
  const int tokens = 2 * kGlobal * kSequence + 1;
  Mask mask;
  for (int i = 0; i < tokens; ++i) mask.push_back(i % 3 == 0 || i % 16 > 12);
  expect_all_grids_equal(MaskedFile(ids(tokens), mask));
}

TEST_F(Masks, OneValidTarget) {  // D01: one of 64 targets; divided by local numbers, loss and gradient would
                                 // shrink with dp
  const int tokens = kGlobal * kSequence + 1;
  Mask mask(tokens, 0);
  mask[29] = 1;
  const MaskedFile file(ids(tokens), mask);
  expect_all_grids_equal(file);
  const Outcome one = train(file, 1, 1), four = train(file, 4, 1);
  double alone = 0;  // the loss of that target, with the mask told to no file
  on_grid(parameters(1, 1, {"data.format=hdf5", file.train(), "batch.micro=8"}), [&](Trial& trial) {
    const GlobalBatch batch = trial.next_batch();
    EXPECT_EQ(std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget),
              kGlobal * kSequence - 1);
    alone = trial.validate(batch);
  });
  if (!file.is_rank_0()) return;
  EXPECT_NEAR(one.first.loss, alone, 1e-14);
  EXPECT_NEAR(four.first.loss, alone, 1e-14);
  EXPECT_GT(one.first.grad_norm, 1e-3);
}

// Every position predicts id 0 with a loss of 1 and id 1 with a loss of 4, whatever it sees.
void plant_known_losses(Trial& trial) {
  const double rest = std::log((1 - std::exp(-1.0) - std::exp(-4.0)) / (trial.parameters().model.vocab - 2));
  for (int i = 0; i < int(trial.parameters().model.hidden); ++i) trial.set_master("norm.weight", i, 0, 0);
  trial.set_master("norm.bias", 0, 0, 1);
  for (int id = 0; id < int(trial.parameters().model.vocab); ++id)
    trial.set_master("head.weight", id, 0, id == 0 ? -1.0 : id == 1 ? -4.0 : rest);
}

TEST_F(Masks, ExactMeanOfUnequalSequences) {  // E01: one target of loss 4, three of loss 1: 7/4, not 5/2
  const MaskedFile file({5, 2, 1, 3, 0, 0, 0, 0, 4}, {1, 0, 1, 0, 0, 1, 1, 1, 0});
  for (const auto& [dp, tp, micro] : {std::tuple{1, 1, 1}, {1, 1, 2}, {2, 1, 1}, {2, 2, 1}, {1, 4, 2}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp, " micro=", micro));
    const Parameters p = parameters(
        dp, tp,
        {"data.format=hdf5", file.train(), "model.sequence=4", "batch.global=2", text("batch.micro=", micro),
         "model.init_std=0", "model.tie_embeddings=off", "optimizer.learning_rate=0"});
    on_grid(p, [&](Trial& trial) {
      plant_known_losses(trial);
      EXPECT_NEAR(trial.step().loss, 1.75, 1e-14);
      const TokenData data({file.path()}, "auto", 4, kVocab);
      const BatchShape shape{2, micro, dp, trial.grid().coordinate(trial.rank())[int(Axis::dp)]};
      const Evaluation all = evaluate_batches(trial.session(), data, shape, 0, {});
      EXPECT_NEAR(all.loss, 1.75, 1e-14);
      EXPECT_EQ(all.targets, 4);
    });
  }
}

TEST_F(Masks, ExactMeanOfUnequalBatches) {  // E01: the same in two validation batches
  const MaskedFile file({5, 2, 1, 3, 0, 0, 0, 0, 4}, {1, 0, 1, 0, 0, 1, 1, 1, 0});
  for (const int tp : {1, 2})
    on_grid(parameters(1, tp,
                       {"data.format=hdf5", file.train(), "model.sequence=4", "batch.global=1",
                        "model.init_std=0", "model.tie_embeddings=off", "optimizer.learning_rate=0"}),
            [&](Trial& trial) {
              plant_known_losses(trial);
              const TokenData data({file.path()}, "auto", 4, kVocab);
              const auto first = [&](std::int64_t batches) {
                return evaluate_batches(trial.session(), data, {1, 1, 1, 0}, batches, {});
              };
              EXPECT_NEAR(first(1).loss, 4, 1e-14);
              EXPECT_NEAR(first(0).loss, 1.75, 1e-14);
              EXPECT_EQ(first(0).batches, 2);
              EXPECT_EQ(first(7).targets, 4);
              int asked = 0;
              const Evaluation stopped =
                  evaluate_batches(trial.session(), data, {1, 1, 1, 0}, 0, [&] { return ++asked == 1; });
              EXPECT_TRUE(stopped.stopped);
              EXPECT_EQ(stopped.batches, 1);
            });
}

TEST_F(Masks, ABatchWithoutTargetsHasNoGradient) {
  const int tokens = 2 * kGlobal * kSequence + 1;
  for (const auto& [dp, tp] : {std::pair{1, 1}, {2, 2}}) {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp));
    const MaskedFile file(ids(tokens), Mask(tokens, 1));
    on_grid(parameters(dp, tp, {"data.format=hdf5", file.train(), "optimizer.weight_decay=0"}),
            [&](Trial& trial) {
              const GlobalBatch none =
                  with_targets(trial.next_batch(), kSequence, [](auto, auto) { return false; });
              const std::string before = trial.state_bytes();
              const StepResult result = trial.step(none, 3e-3);
              EXPECT_TRUE(result.finite);
              EXPECT_EQ(result.loss, 0);
              EXPECT_EQ(result.grad_norm, 0);
              EXPECT_TRUE(trial.state_bytes() == before)
                  << "moments were zero and stay so, weights do not move";
              EXPECT_TRUE(trial.step().finite);
            });
  }
}

}  // namespace

}  // namespace octachoron::parity
