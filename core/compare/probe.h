#pragma once
/// Looks over the shoulder of one step that runs operation by operation, with casts of their own (Casts::apart): what is handed to each cast and what
/// comes out of it, the weights that products read, and the residual stream.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/compare/observation.h"
#include "core/train/session.h"

namespace octachoron {

/// The elements of a view as numbers. FP8: the values of the codes, not divided by a scale.
std::vector<double> read_values(const std::byte* data, const View& view);

/// What an element of a compute weight is where it was cast from `master` just now. FP8: as read_values().
double cast_of(double master, DType type, float scale);

/// The scale that a history asks for by the rule of its recipe; 0: it knows nothing, or the rule makes none
/// anew.
float scale_asked(const oct_quant_spec& spec, std::span<const float> history);

class StepProbe {
 public:
  /// \param session must outlive it
  StepProbe(TrainingSession& session, const Parameters& parameters);
  /// After each operation of the step. Local.
  void look(const Issue& issue);

  /// What all ranks saw together. Collective, after the step.
  /// \param masters of all weights before it, on rank 0 \param own_rule scales follow from histories by the
  /// recipe's own rule \return complete on rank 0
  StepObservation step(const World& world, const Tensors& masters, bool own_rule) const;
  /// The residual stream, on rank 0. Collective.
  std::vector<std::pair<std::string, Assembled>> forward(const World& world) const;

 private:
  struct Row {                 // of one quantised tensor, plain bytes
    std::uint32_t handed = 0;  // bits of the amax
    float scale = 0, cast_scale = 0;
    int product = -1;  // oct_pass
    std::int64_t looked_at = 0, wrong = 0;
    double difference = 0, square = 0;
    bool cast_seen = false;
  };
  struct Weight {
    std::string module;
    int tensor = -1;  // of the parameter set
    DType type = OCT_F32;
    std::vector<double> values;
  };
  struct Stream {
    std::string name;
    std::vector<double> values;
  };

  void begin();
  void look_at_norm(const Operation& operation, const Call& call);
  void look_at_cast(const Operation& operation, const Call& call);
  void look_at_product(const Operation& operation, const Call& call);
  void look_at_weight(const ModuleQuantization& module, const std::string& part, const View& view,
                      const Call& call);
  void look_at_scale(const View& scale, int row, int pass, const Call& call);
  float scalar(const View& view, const Call& call) const;
  std::vector<double> values(const View& view, const Call& call) const;
  std::vector<Row> combined_rows(const World& world) const;
  std::vector<bool> rows_alike(const World& world) const;
  CastObservation observation(int row, const Row& seen, bool own_rule) const;
  void add_weights(const World& world, const Tensors& masters, StepObservation& step) const;
  bool rolled_once(int row, float amax) const;
  Coordinate place(const World& world) const { return session_.grid().coordinate(world.rank()); }

  TrainingSession& session_;
  std::int64_t layers_, hidden_, tokens_;  // of a micro-batch
  bool begun_ = false;
  std::vector<std::vector<float>> histories_;  // before the step
  std::map<std::string, int> row_of_;
  std::vector<Row> rows_;
  std::map<std::string, Weight> weights_;  // by key
  std::vector<Stream> stream_;
};

}  // namespace octachoron
