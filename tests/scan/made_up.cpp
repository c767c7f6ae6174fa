#include "tests/scan/made_up.h"

namespace octachoron::scan_test {

Degree made_up(int degree, const Terms& terms) {
  Degree out;
  out.degree = degree;
  out.grid.extent[int(Axis::tp)] = degree;
  out.cores = {.of_node = 8, .ranks_of_node = degree, .threads = 1};
  out.tokens = 1000;
  Accounting& total = out.split.total;
  total.compute = terms.gemm + terms.other;
  total.exposed = terms.exposed, total.overlap = terms.exposed, total.comm = 2 * terms.exposed;
  total.idle = terms.skew + terms.host;
  total.step = total.compute + total.exposed + total.idle;
  total.stall = terms.exposed + terms.skew;
  out.split.gemm_ms = terms.gemm, out.split.skew_ms = terms.skew;
  out.steps_ms.assign(7, total.step);
  out.gemms = {{.label = "layers.*.mlp.fc1.fprop",
                .formats = "a x b",
                .m = 500,
                .n = 1000 / degree,
                .k = 1000,
                .count = 1,
                .time_ms = terms.gemm}};
  if (degree > 1)
    out.collectives = {{.kind = "all_gather",
                        .axes = "tp",
                        .count = 3,
                        .bytes = 4096,
                        .time_ms = total.comm,
                        .hidden_ms = total.overlap}};
  return out;
}

}  // namespace octachoron::scan_test
