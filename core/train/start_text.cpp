#include "core/train/start_text.h"

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/checkpoint/stage.h"
#include "core/config/parameter_file.h"
#include "core/report/process_memory.h"
#include "core/report/tables.h"

namespace octachoron {

std::string start_text(const Parameters& parameters, const ProcessGrid& grid, const std::vector<std::string>& hosts,
                       Backend& backend, const TrainingSession& session) {
  const RankPrograms& programs = session.programs();
  const Recipe& recipe = backend.recipe();
  return text(
      "octachoron ", version(), ": run '", parameters.run.name, "', ", parameters.run.steps, " steps on ",
      to_string(grid), "\neffective parameters:\n", format_parameters(parameters), "\nranks:\n",
      rank_map(grid, hosts), backend.describe(), "threads a rank: ", backend.threads(), "\nmodel: ",
      programs.set.global_elements(), " parameters, ", programs.set.local_elements(),
      " of them on a TP rank\nprecision:\n", precision_table_text(programs.quantization.table),
      "  activations between them are stored in ", name(recipe.storage(OCT_STORAGE_ACTIVATION)),
      "; never in FP8: embedding, norms, softmax, attention core, residual stream and loss (statistics in ",
      name(recipe.storage(OCT_STORAGE_STATISTIC)), "), gradients and their reductions in ",
      name(recipe.storage(OCT_STORAGE_GRADIENT)), ", masters and moments in ",
      name(recipe.storage(OCT_STORAGE_MASTER)), "\nmemory of a rank, planned:\n",
      memory_text(programs.training.plan, programs.arena_bytes(),
                  process_memory(programs, backend.device(), session.libraries_bytes(), save_bytes)));
}

}  // namespace octachoron
